"""Reasoning as Onyx models write it: messages to themselves."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.harmony import MessageJoiner
from calculators.llm.parsers.onyx_messages import ONYX_TOKENS, SELF, OnyxPart, OnyxReader
from calculators.llm.parsers.parser import ReasoningParser


class OnyxReasoningParser(ReasoningParser):
    """Reads messages ``to=self``, joined by line ends, as reasoning, and others as content."""

    start_tags = ("to=self<|message|>", "to=self")
    end_tag = "<|eom|>"
    turn = "<|start|>assistant "
    answer_start = "to=user<|message|>"
    special_tokens = ONYX_TOKENS

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._reader = OnyxReader(SELF if is_open else None)
        self._thoughts = MessageJoiner("\n")

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[OnyxPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            if part.recipient != SELF:
                if part.place == "text":
                    events.append(Content(part.text))
            elif part.place == "text":
                events.append(Reasoning(self._thoughts.add(part.text)))
            elif part.place == "header":
                self._thoughts.begin()
        return events
