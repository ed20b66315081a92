"""gpt-oss: messages to ``functions.NAME``, in the harmony form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.harmony import (
    HARMONY_TOKENS,
    HarmonyPart,
    HarmonyReader,
    MessageJoiner,
    MessageKind,
    is_built_in,
)
from calculators.llm.parsers.parser import CallForm, ToolParser


class GptOssToolParser(ToolParser):
    """Passes on the text of a message to a function as the arguments of a call, unchanged.

    Final answers and preambles are content, without headers and joined by a space, unless the
    reasoning parser did that already. A call of one of the model's own tools, which the request
    does not have, is reasoning. All other messages are content, without headers.
    """

    special_tokens = HARMONY_TOKENS
    # A call ends with <|call|>, which also ends the answer.
    call_form = CallForm(
        trigger="<|channel|>commentary to=",
        begin="<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>",
        end="",
        only_one=True,
    )

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._reader = HarmonyReader()
        self._answer = MessageJoiner(" ")
        self._has_arguments = False

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[HarmonyPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            match part.kind, part.place:
                case MessageKind.CALL, _ if is_built_in(part.function) and (
                    part.function not in self.tools
                ):
                    if part.place == "text":
                        events.append(Reasoning(part.text))
                case MessageKind.CALL, "header":
                    events.append(ToolCall(part.function))
                    self._has_arguments = False
                case MessageKind.CALL, "text":
                    events.append(Arguments(part.text))
                    self._has_arguments = True
                case MessageKind.CALL, "end":
                    if not self._has_arguments:
                        events.append(Arguments("{}"))
                case MessageKind.ANSWER, "header":
                    self._answer.begin()
                case MessageKind.ANSWER, "text":
                    events.append(Content(self._answer.add(part.text)))
                case (MessageKind.ANALYSIS | MessageKind.OTHER, "text"):
                    events.append(Content(part.text))
                case _:
                    pass  # headers and ends of the others
        return events
