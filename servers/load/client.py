"""A client of streamed answers that records the arrival of tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from time import perf_counter
from typing import Any, Final

import aiohttp

from servers.load.error_message import error_message
from servers.load.outcome import Outcome
from servers.load.prompts import Prompt

CHAT: Final = "/chat/completions"
COMPLETIONS: Final = "/completions"


class StreamClient:
    """Asks one endpoint for streamed answers.

    Args:
        url: of the endpoint, `CHAT` or `COMPLETIONS` at its end.
        extra: further members of every request.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        model: str,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._session = session
        self._url = url
        self._model = model
        self._extra = dict(extra or {})
        self._is_chat = url.rstrip("/").endswith(CHAT)

    def body(self, prompt: Prompt) -> bytes:
        """Make the request body for a prompt."""
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._is_chat:
            body["messages"] = prompt.messages
        else:
            body["prompt"] = prompt.text
        if prompt.output_tokens is not None:
            body["max_tokens"] = prompt.output_tokens
        return json.dumps({**body, **self._extra}).encode()

    async def ask(self, body: bytes) -> Outcome:
        """Send a request and read its answer; a failure is a part of the outcome."""
        outcome = Outcome(perf_counter())
        try:
            async with self._session.post(
                self._url, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                if response.status != 200:
                    outcome.error = f"{response.status}: {await _reason(response)}"
                    return outcome
                has_ended = False
                async for time, data in _events(response.content):
                    if data == b"[DONE]":
                        has_ended = True
                    else:
                        _take(json.loads(data), time, outcome)
                if not has_ended and not outcome.error:
                    outcome.error = "the stream broke off"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            outcome.error = str(error) or type(error).__name__
        except ValueError:
            outcome.error = "an event of the stream is no JSON"
        outcome.output_tokens = outcome.output_tokens or len(outcome.arrivals)
        return outcome


async def _reason(response: aiohttp.ClientResponse) -> str:
    """Return the message of an error response, in OpenAI's form or any other."""
    text = (await response.text(errors="replace"))[:2000]
    return error_message(text) or text.strip()[:200]


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[float, bytes]]:
    """Yield the data of each server-sent event with the time at which it arrived."""
    rest = b""
    async for piece in content.iter_any():
        time = perf_counter()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield time, line[5:].strip()


def _take(event: Mapping[str, Any], time: float, outcome: Outcome) -> None:
    """Add the content of one event to the outcome."""
    if event.get("error"):
        outcome.error = json.dumps(event["error"])
    usage = event.get("usage")
    if usage:
        outcome.input_tokens = usage.get("prompt_tokens", 0)
        outcome.output_tokens = usage.get("completion_tokens", 0)
    for choice in event.get("choices", ()):
        delta = choice.get("delta") or {}
        text = delta.get("content") or choice.get("text") or ""
        outcome.text += text
        has_tokens = text or delta.get("reasoning_content") or delta.get("tool_calls")
        # The last event has no text when the last token is half a character.
        has_tokens = has_tokens or (choice.get("finish_reason") and outcome.arrivals)
        if has_tokens and time not in outcome.arrivals[-1:]:
            outcome.arrivals.append(time)
