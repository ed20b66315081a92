"""Reasoning as gpt-oss writes it: messages on the channel ``analysis``, in the harmony form."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.harmony import (
    HARMONY_TOKENS,
    HarmonyPart,
    HarmonyReader,
    MessageJoiner,
    MessageKind,
    is_built_in,
)
from calculators.llm.parsers.parser import ReasoningParser


class GptOssReasoningParser(ReasoningParser):
    """Reads analysis as reasoning, and final answers and preambles of calls as content.

    Both lose their headers. All other messages, such as calls, are content unchanged, for the tool
    parser; without one they lose their headers too. Several messages of one kind are joined by a
    space.
    """

    start_tags = ("<|channel|>analysis<|message|>",)
    end_tag = "<|end|>"
    turn = "<|start|>assistant"
    answer_start = "<|channel|>final<|message|>"
    special_tokens = HARMONY_TOKENS

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._reader = HarmonyReader(MessageKind.ANALYSIS if is_open else None)
        self._analysis = MessageJoiner(" ")
        self._answer = MessageJoiner(" ")

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[HarmonyPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            match part.kind, part.place:
                case MessageKind.ANALYSIS, "text":
                    events.append(Reasoning(self._analysis.add(part.text)))
                case MessageKind.ANALYSIS, "header":
                    self._analysis.begin()
                case MessageKind.ANSWER, "text":
                    events.append(Content(self._answer.add(part.text)))
                case MessageKind.ANSWER, "header":
                    self._answer.begin()
                case (MessageKind.CALL | MessageKind.OTHER, _) if self.feeds_tools:
                    events.append(Content(part.text))
                case MessageKind.CALL, "text" if is_built_in(part.function):
                    events.append(Reasoning(self._analysis.add(part.text)))
                case (MessageKind.CALL | MessageKind.OTHER, "text"):
                    events.append(Content(part.text))
                case _:
                    pass  # headers and ends of messages
        return events
