"""Reasoning between two tags: the base class, and the parsers of Qwen3's kind and of Gemma 4."""

from __future__ import annotations

from typing import ClassVar

from calculators.language.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.parser import ReasoningParser, Tags, TagScanner


class ReasoningBetweenTags(ReasoningParser):
    """Takes all text between ``start_tags`` and ``end_tag``, any number of times, as reasoning.

    So is all text after a start tag without an end: a stream cannot know that the end is missing.
    White space is kept on either side. A tag that opens or closes nothing is plain text.
    """

    _begins: ClassVar[Tags]
    _ends: ClassVar[Tags]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.start_tags:
            cls._begins = Tags(*cls.start_tags)
            cls._ends = Tags(cls.end_tag)

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._scanner = TagScanner()

    def feed(self, text: str) -> list[OutputEvent]:
        scanner = self._scanner
        if scanner.place == len(scanner.text):
            # Nothing is held back. Nearly all text has not even the first letter of a tag.
            if self.is_open:
                if self._ends.first.search(text) is None:
                    return [Reasoning(text)]
            elif self._begins.first.search(text) is None:
                return [Content(text)]
        scanner.feed(text)
        return self._read()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        return self._read()

    def _read(self) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        while True:
            text, tag = self._scanner.take(self._ends if self.is_open else self._begins)
            if text:
                events.append(Reasoning(text) if self.is_open else Content(text))
            if tag is None:
                return events
            self.is_open = not self.is_open


class ThinkParser(ReasoningBetweenTags):
    """Reads ``<think>...</think>``. White space around the tags stays where it is.

    Text before a ``</think>`` that no ``<think>`` precedes, in the prompt or in the answer, stays
    content: it has been passed on already.
    """

    start_tags = ("<think>",)
    end_tag = "</think>"
    special_tokens = frozenset((*start_tags, end_tag))


class Gemma4ReasoningParser(ReasoningBetweenTags):
    """Reads the channel ``thought``. The line end after its name belongs to the tag."""

    start_tags = ("<|channel>thought\n", "<|channel>thought")
    end_tag = "<channel|>"
    special_tokens = frozenset(("<|channel>", "<channel|>"))
