"""Parts that answers of all endpoints share: identity, choices, the frame of an event."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from calculators.language.delta import Begun, ToolCalled, ToolRan
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.finish_reason import FinishReason
from calculators.language.token_logprob import TokenLogprob
from calculators.language.usage import Usage
from calculators.llm.answers.answer_details import AnswerDetails
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.usage import usage_json

#: The last event of every stream.
DONE: Final = "data: [DONE]\n\n"
_END: Final = "}\n\n"
_NO_USAGE: Final = ',"usage":null'
#: For names of models and fingerprints: a server has few.
_quoted_name: Final = lru_cache(maxsize=256)(quote)


class ResponseHead(msgspec.Struct, frozen=True):
    """The identity of one answer, in its body or in each of its events.

    Attributes:
        id: see `calculators.llm.api.neutral_request.new_answer_id`.
        model: as the client named it.
        created: seconds since 1970; now, unless given.
        system_fingerprint: changes when the same request may be answered differently.
    """

    id: str
    model: str
    created: int = msgspec.field(default_factory=lambda: int(time.time()))
    system_fingerprint: str | None = None

    def json(self, kind: str) -> str:
        """Return the members as JSON without braces; ``kind`` is the value of ``object``."""
        fingerprint = self.system_fingerprint
        shown = "null" if fingerprint is None else _quoted_name(fingerprint)
        return (
            f'"id":{quote(self.id)},"object":"{kind}","created":{self.created}'
            f',"model":{_quoted_name(self.model)},"system_fingerprint":{shown}'
        )


def response_head(begun: Begun) -> ResponseHead:
    """Return the identity of an answer that begins."""
    request = begun.request
    return ResponseHead(request.id, answering_model(begun), request.created, begun.fingerprint)


def answering_model(begun: Begun) -> str:
    """Return the name of the model that an answer has."""
    return begun.model or begun.request.answer_model or begun.request.model


@dataclass(slots=True)
class MadeCall:
    """A call of a tool; ``arguments`` is the text of a JSON object, maybe cut short."""

    call_id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class AnswerChoice:
    """One answer of a whole response.

    Attributes:
        events: the output in order; with the prompt if it is echoed, and with the calls that this
            server ran if the answer shows them.
        logprobs: None unless the request asks for them.
        stop_string: the stop string that ended the choice, if one did.
        token_ids: the tokens of the completion; only for requests that ask for them.
        refusal: the refusal that ended it, if one did.
    """

    events: list[OutputEvent | ToolCalled | ToolRan] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.STOP
    logprobs: list[TokenLogprob] | None = None
    stop_string: str | None = None
    token_ids: list[int] = field(default_factory=list)
    refusal: Refused | None = None

    @property
    def content(self) -> str:
        """The text for the user."""
        return "".join([event.text for event in self.events if isinstance(event, Content)])

    @property
    def reasoning(self) -> str:
        """The text of the reasoning."""
        return "".join([event.text for event in self.events if isinstance(event, Reasoning)])

    @property
    def tool_calls(self) -> list[MadeCall]:
        """The calls, in order."""
        calls: list[MadeCall] = []
        for event in self.events:
            if isinstance(event, ToolCall):
                calls.append(MadeCall(event.call_id, event.name))
            elif isinstance(event, Arguments):
                calls[-1].arguments += event.text
        return calls


@dataclass(slots=True)
class Verbose:
    """The prompt as the model received it and the model's raw text, for ``--verbose_response``.

    ``content``: of the first choice, special tokens included; complete when the choice has ended.
    """

    prompt: str
    content: str = ""

    @property
    def json(self) -> str:
        """The member ``__verbose`` as JSON, with a comma before it."""
        return f',"__verbose":{{"prompt":{quote(self.prompt)},"content":{quote(self.content)}}}'


class EventFrame:
    """The constant text around the one choice that an event carries.

    Attributes:
        opening: the text before the choice's index.
        closing: the text after the choice; with ``"usage":null`` in a stream whose last event has
            the usage.
    """

    __slots__ = ("_head", "_usage", "closing", "opening")

    def __init__(self, head: ResponseHead, kind: str, *, include_usage: bool) -> None:
        self._head = head.json(kind)
        self.opening = f'data: {{{self._head},"choices":[{{"index":'
        self._usage = _NO_USAGE if include_usage else ""
        self.closing = f"}}]{self._usage}{_END}"

    def detailed(self, details: AnswerDetails, choice: str, answer: str = "") -> str:
        """Return the `closing` with further members of the choice, of the answer, and the usage."""
        return f"{choice}}}]{details.running_usage(self._usage)}{answer}{_END}"

    def closing_with(self, verbose: Verbose, closing: str) -> str:
        """Return a closing with the prompt and the raw text."""
        return f"{closing.removesuffix(_END)}{verbose.json}{_END}"

    def usage(self, usage: Usage) -> str:
        """Return the event with the usage and without choices."""
        return f'data: {{{self._head},"choices":[],"usage":{usage_json(usage)}}}\n\n'
