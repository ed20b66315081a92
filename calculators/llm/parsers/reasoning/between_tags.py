"""`ReasoningBetweenTags`: what the parsers of reasoning that stands between two tags share."""

from __future__ import annotations

from typing import ClassVar

from calculators.llm.parsers.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.parser import ReasoningParser
from calculators.llm.parsers.tag_scanner import Tags, TagScanner


class ReasoningBetweenTags(ReasoningParser):
    """All text between ``start_tags`` and ``end_tag``, any number of times, is reasoning.

    So is all after a tag that nothing ends: who hears it as it comes cannot know. White space
    stays on either side. A tag that opens or closes nothing is text like any other.
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
        self._scanner.feed(text)
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
