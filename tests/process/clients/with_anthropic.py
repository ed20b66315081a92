"""Anthropic's client, whose base URL has no version."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic

from tests.process.clients.asked import (
    API_KEY,
    MAX_TOKENS,
    MODEL,
    NO_MODEL,
    QUESTION,
    TOO_HOT,
)

#: The client no longer has a parameter for it.
_COLD = {"temperature": 0}


def facts(base_url: str) -> dict[str, Any]:
    # The client appends /v1/messages: OpenVINO Model Server's prefix goes before that.
    where: dict[str, Any] = {
        "base_url": base_url.removesuffix("/v1"),
        "api_key": API_KEY,
        "max_retries": 0,
    }
    client = anthropic.Anthropic(**where)
    return {
        **_text(client),
        "count": client.messages.count_tokens(model=MODEL, messages=_user(QUESTION)).input_tokens,
        "async": asyncio.run(_async_text(where)),
        "bad_request": _error(client, anthropic.BadRequestError, MODEL, temperature=TOO_HOT),
        "not_found": _error(client, anthropic.NotFoundError, NO_MODEL),
    }


def _user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _text(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": _user(QUESTION),
        "max_tokens": MAX_TOKENS,
        "extra_body": _COLD,
    }
    whole = client.messages.create(**asked)
    kinds = [event.type for event in client.messages.create(**asked, stream=True)]
    with client.messages.stream(**asked) as stream:
        pieces = "".join(stream.text_stream)
        final = stream.get_final_message()
    raw = client.messages.with_raw_response.create(**asked)
    cut = client.messages.create(**{**asked, "max_tokens": 2})
    stopped = client.messages.create(**asked, stop_sequences=["!"])
    system = client.messages.create(**asked, system=[{"type": "text", "text": "Be brief."}])
    return {
        "text": whole.content[0].text,
        "stop": whole.stop_reason,
        "usage": [whole.usage.input_tokens, whole.usage.output_tokens],
        "first_event": kinds[0],
        "last_event": kinds[-1],
        "stream": pieces,
        "stream_final": final.content[0].text,
        "stream_stop": final.stop_reason,
        "stream_usage": [final.usage.input_tokens, final.usage.output_tokens],
        "raw_request_id": raw.headers["request-id"],
        "cut": cut.stop_reason,
        "stopped": [stopped.stop_reason, stopped.stop_sequence],
        "has_system": bool(system.content[0].text),
    }


async def _async_text(where: dict[str, Any]) -> list[str]:
    async with anthropic.AsyncAnthropic(**where) as client:

        async def text() -> str:
            async with client.messages.stream(
                model=MODEL, messages=_user(QUESTION), max_tokens=MAX_TOKENS, extra_body=_COLD
            ) as stream:
                return str(await stream.get_final_text())

        return list(await asyncio.gather(text(), text()))


def _error(
    client: anthropic.Anthropic, kind: type[anthropic.APIStatusError], model: str, **members: Any
) -> dict[str, Any]:
    """Return the error, the same for unary requests and streams: nothing was sent before."""
    told_of = []
    for stream in (False, True):
        try:
            client.messages.create(
                model=model,
                messages=_user(QUESTION),
                max_tokens=MAX_TOKENS,
                stream=stream,
                extra_body=members,
            )
        except kind as error:
            told_of.append(
                {
                    "status": error.status_code,
                    "type": error.body["error"]["type"],
                    "request_id": bool(error.request_id),
                }
            )
    first, second = told_of
    assert first == second
    return first
