"""What all answers have in common: an identity, written once and reused for every event."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from calculators.llm.openai.finish_reason import FinishReason
from calculators.llm.openai.json_text import quote
from calculators.llm.openai.token_logprob import TokenLogprob
from calculators.llm.openai.usage import Usage
from calculators.llm.output.events import Arguments, Content, OutputEvent, Reasoning, ToolCall

#: The last event of every stream.
DONE: Final = "data: [DONE]\n\n"


def new_response_id(prefix: Literal["chatcmpl", "cmpl"]) -> str:
    """An id of 128 random bits, ``chatcmpl-...``."""
    return f"{prefix}-{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What one answer says of itself in its body, or in each of its events.

    Attributes:
        id: see `new_response_id`.
        model: as the client named it.
        created: seconds since 1970; now, unless given.
        system_fingerprint: changes when the same request may be answered differently.
    """

    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    system_fingerprint: str | None = None

    def json(self, kind: str) -> str:
        """The members, with ``object``, as JSON without braces."""
        fingerprint = "null" if self.system_fingerprint is None else quote(self.system_fingerprint)
        return (
            f'"id":{quote(self.id)},"object":"{kind}","created":{self.created}'
            f',"model":{quote(self.model)},"system_fingerprint":{fingerprint}'
        )


@dataclass(slots=True)
class MadeCall:
    """A call of a tool; ``arguments`` is the text of a JSON object, as far as the model got."""

    call_id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class AnswerChoice:
    """One answer of a whole response; ``content`` with the prompt when that is echoed.

    ``logprobs`` None is not asked for.
    """

    content: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    logprobs: list[TokenLogprob] | None = None
    reasoning: str = ""
    tool_calls: list[MadeCall] = field(default_factory=list)

    def add(self, events: Iterable[OutputEvent]) -> None:
        """What parsers found next."""
        for event in events:
            match event:
                case Content(text):
                    self.content += text
                case Reasoning(text):
                    self.reasoning += text
                case ToolCall(name, call_id):
                    self.tool_calls.append(MadeCall(call_id, name))
                case Arguments(text):
                    self.tool_calls[-1].arguments += text


class EventFrame:
    """The constant text around the one choice that an event carries.

    Attributes:
        opening: up to the choice's index.
        closing: from the end of the choice, with the ``usage`` of null that stands in every event
            of a stream whose last one says it.
    """

    __slots__ = ("_head", "closing", "opening")

    def __init__(self, head: ResponseHead, kind: str, *, include_usage: bool) -> None:
        self._head = head.json(kind)
        self.opening = f'data: {{{self._head},"choices":[{{"index":'
        self.closing = '}],"usage":null}\n\n' if include_usage else "}]}\n\n"

    def usage(self, usage: Usage) -> str:
        """The event with the usage; it has no choices."""
        return f'data: {{{self._head},"choices":[],"usage":{usage.json}}}\n\n'
