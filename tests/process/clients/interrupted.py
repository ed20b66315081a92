"""Clients of OpenAI and Anthropic that read streams while the engine dies.

Prints ``began`` when all of them have text, then how each ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import anthropic
import openai

from tests.process.clients.asked import API_KEY, MODEL, QUESTION

_ENDLESS: Final = 1900
_MESSAGES: list[Any] = [{"role": "user", "content": QUESTION}]
_MORE: dict[str, Any] = {"ignore_eos": True}


async def main(url: str) -> None:
    began = asyncio.Barrier(4)
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v3", api_key=API_KEY, max_retries=0) as client,
        anthropic.AsyncAnthropic(base_url=url, api_key=API_KEY, max_retries=0) as other,
    ):
        ends = asyncio.gather(
            _end(_chat(client), began), _end(_response(client), began), _end(_message(other), began)
        )
        await began.wait()
        print("began", flush=True)
        chat, response, message = await ends
    print(json.dumps({"chat": chat, "response": response, "message": message}))


async def _end(pieces: AsyncIterator[Any], began: asyncio.Barrier) -> dict[str, Any]:
    """Return the error that a stream raises, or its last piece."""
    last: Any = None
    try:
        async for piece in pieces:
            if last is None:
                await began.wait()
            last = piece
    except (openai.APIError, anthropic.APIError) as error:
        return {"kind": type(error).__name__, "body": error.body}
    return {"last": last.to_dict()}


async def _chat(client: openai.AsyncOpenAI) -> AsyncIterator[Any]:
    async for chunk in await client.chat.completions.create(
        model=MODEL, messages=_MESSAGES, max_tokens=_ENDLESS, stream=True, extra_body=_MORE
    ):
        if chunk.choices[0].delta.content:
            yield chunk


async def _response(client: openai.AsyncOpenAI) -> AsyncIterator[Any]:
    async for event in await client.responses.create(
        model=MODEL, input=QUESTION, max_output_tokens=_ENDLESS, stream=True, extra_body=_MORE
    ):
        if event.type in ("response.output_text.delta", "response.failed"):
            yield event


async def _message(client: anthropic.AsyncAnthropic) -> AsyncIterator[Any]:
    async for event in await client.messages.create(
        model=MODEL, messages=_MESSAGES, max_tokens=_ENDLESS, stream=True, extra_body=_MORE
    ):
        if event.type == "content_block_delta":
            yield event


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
