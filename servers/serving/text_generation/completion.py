"""What a graph answers to a completion request: one JSON object, or server-sent events."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from calculators.requests.http_payload import RequestError
from graph_runtime import Code, GraphError

_DATA: Final = "data:"
_DONE: Final = "[DONE]"

#: Of the error objects that stand in answers: their type or code, and what it means.
_CODES: Final = {
    "invalid_request_error": Code.INVALID_ARGUMENT,
    "rate_limit_error": Code.RESOURCE_EXHAUSTED,
    "service_unavailable": Code.UNAVAILABLE,
    "timeout": Code.DEADLINE_EXCEEDED,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A text, or a piece of one.

    Attributes:
        index: which of the answers.
        finish_reason: why it ended; None while it has not.
        logprobs: of its tokens; empty where they were not asked for.
    """

    index: int
    text: str
    finish_reason: str | None
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, or an event of one. Tokens are None where it does not say how many."""

    choices: tuple[Choice, ...]
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, text: str) -> Completion:
        """An answer of ``/v3/completions`` or ``/v3/chat/completions``, or an event of one.

        Raises:
            RequestError: it is an error object.
            GraphError: it is no such answer.
        """
        try:
            value = json.loads(text)
            if "error" in value:
                raise _failure(value["error"])
            usage = value.get("usage") or {}
            return cls(
                tuple(_choice(each) for each in value["choices"]),
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise no_completion() from error


class EventReader:
    """Packets of a stream to the texts of its events, wherever they were cut."""

    def __init__(self) -> None:
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, packet: str | bytes) -> Iterator[str]:
        """The data of each event that is complete; not of the one that only ends a stream."""
        text = packet if isinstance(packet, str) else self._decoder.decode(packet)
        *events, self._rest = (self._rest + text).split("\n\n")
        for event in events:
            lines = [line for line in event.split("\n") if line.startswith(_DATA)]
            data = "\n".join(line.removeprefix(_DATA).strip() for line in lines)
            if data and data != _DONE:
                yield data


def no_completion() -> GraphError:
    """The error of a graph that answers something else, or nothing."""
    return GraphError("the graph's answer is no completion", code=Code.INTERNAL)


def _choice(value: dict[str, Any]) -> Choice:
    # A chat's pieces are deltas, its whole answers messages; what was thought is not the answer.
    message = value.get("delta") or value.get("message") or {}
    text = value["text"] if "text" in value else message.get("content")
    return Choice(
        int(value.get("index") or 0),
        text or "",
        value.get("finish_reason"),
        tuple(_logprobs(value.get("logprobs") or {})),
    )


def _logprobs(value: dict[str, Any]) -> Iterator[float]:
    for logprob in value.get("token_logprobs") or ():
        yield 0.0 if logprob is None else float(logprob)
    for token in value.get("content") or ():
        yield float(token["logprob"])


def _failure(error: dict[str, Any]) -> RequestError:
    code = _CODES.get(error.get("code") or "") or _CODES.get(error.get("type") or "")
    return RequestError(
        str(error.get("message") or "the request failed"),
        param=error.get("param"),
        code=code or Code.INTERNAL,
    )
