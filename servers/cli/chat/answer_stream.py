"""One streamed answer of a server of the OpenAI API."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from servers.load.error_message import error_message


class AnswerError(Exception):
    """The server refuses or fails; the text is its message."""


@dataclass(slots=True)
class ChatAnswer:
    """The part of an answer that has arrived.

    Attributes:
        calls: of tools, in the form of a message's ``tool_calls``.
        tokens: that were generated, as the server counts them; 0 where it does not.
        seconds: from the first token to the last one.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = ""
    tokens: int = 0
    seconds: float = 0.0
    first_token_seconds: float = 0.0


def stream_answer(
    url: str, body: Mapping[str, Any], key: str | None
) -> Generator[ChatAnswer, None, None]:
    """Send a request; yield the answer whenever something was added to it.

    Args:
        url: of the server with the path of the API, ``http://localhost:8000/v1``.

    Raises:
        AnswerError: there is no answer, or it breaks off.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "localhost", parts.port)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    answer = ChatAnswer()
    sent = perf_counter()
    first: float | None = None
    has_ended = False
    try:
        connection.request(
            "POST", f"{parts.path}/chat/completions", json.dumps(body).encode(), headers
        )
        response = connection.getresponse()
        if response.status != 200:
            message = error_message(response.read(1 << 20))
            raise AnswerError(message or f"the server answers {response.status}")
        for line in response:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                has_ended = True
                continue
            if _add(json.loads(data), answer):
                now = perf_counter()
                first = now if first is None else first
                answer.first_token_seconds = first - sent
                answer.seconds = now - first
            yield answer
        if not has_ended:
            raise AnswerError("the answer broke off")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise AnswerError(f"{parts.netloc}: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()


def _add(event: Mapping[str, Any], answer: ChatAnswer) -> bool:
    """Add the content of an event; return whether it had text or a call."""
    if event.get("error"):
        error = event["error"]
        raise AnswerError(str(error.get("message", error)) if isinstance(error, dict) else error)
    usage = event.get("usage")
    if usage:
        answer.tokens = usage.get("completion_tokens", 0)
    brought = False
    for choice in event.get("choices", ()):
        delta = choice.get("delta") or {}
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        answer.text += delta.get("content") or ""
        answer.reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            _add_call(call, answer.calls)
        brought = brought or any(
            delta.get(name) for name in ("content", "reasoning_content", "tool_calls")
        )
    return brought


def _add_call(piece: Mapping[str, Any], calls: list[dict[str, Any]]) -> None:
    """Add a piece of a call to those before it."""
    while len(calls) <= piece.get("index", 0):
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[piece.get("index", 0)]
    call["id"] = piece.get("id") or call["id"]
    function = piece.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
