"""A graph's answers to completion requests: one JSON object, or server-sent events."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, GraphError

_DATA: Final = "data:"
_DONE: Final = "[DONE]"

#: Types or codes of error objects in answers, with the codes of errors that they become.
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
        index: the number of the text among the answers to one prompt.
        finish_reason: why the text ended; None if it has not.
        logprobs: the log-probabilities of its tokens; empty if they were not requested.
    """

    index: int
    text: str
    finish_reason: str | None
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, or an event of one. Numbers of tokens are None if it has none."""

    choices: tuple[Choice, ...]
    input_tokens: int | None
    output_tokens: int | None

    @classmethod
    def of(cls, text: str) -> Completion:
        """Parse an answer of ``/v3/completions`` or ``/v3/chat/completions``, or an event of one.

        Raises:
            RequestError: the text is an error object.
            GraphError: the text is no such answer.
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
    """Splits the packets of a stream into events, which may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, packet: str | bytes) -> Iterator[str]:
        """Yield the data of each complete event, except the one that ends a stream."""
        text = packet if isinstance(packet, str) else self._decoder.decode(packet)
        *events, self._rest = (self._rest + text).split("\n\n")
        for event in events:
            lines = [line for line in event.split("\n") if line.startswith(_DATA)]
            data = "\n".join(line.removeprefix(_DATA).strip() for line in lines)
            if data and data != _DONE:
                yield data


def no_completion() -> GraphError:
    """Return the error for a graph that answers something else, or nothing."""
    return GraphError("the graph's answer is no completion", code=Code.INTERNAL)


def _choice(value: dict[str, Any]) -> Choice:
    # Pieces of a chat are deltas, whole answers are messages. Reasoning is not part of the answer.
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
