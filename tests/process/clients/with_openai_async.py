"""OpenAI's asynchronous client."""

from __future__ import annotations

import asyncio
from typing import Any

import openai

from tests.process.clients.asked import API_KEY, MAX_TOKENS, MODEL, NO_MODEL, PROMPT, QUESTION


def facts(base_url: str) -> dict[str, Any]:
    return asyncio.run(_facts(base_url))


async def _facts(base_url: str) -> dict[str, Any]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key=API_KEY, max_retries=0) as client:
        asked: dict[str, Any] = {
            "model": MODEL,
            "messages": [{"role": "user", "content": QUESTION}],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
        whole = await client.chat.completions.create(**asked)
        streams = await asyncio.gather(*(_stream(client, asked) for _ in range(4)))
        completion = await client.completions.create(
            model=MODEL, prompt=PROMPT, temperature=0, max_tokens=MAX_TOKENS
        )
        # Leaving a stream early closes it; the connection can be reused.
        async with await client.chat.completions.create(**asked, stream=True) as left:
            async for _ in left:
                break
        try:
            await client.chat.completions.create(**{**asked, "model": NO_MODEL})
            missing = None
        except openai.NotFoundError as error:
            missing = error.code
        return {
            "chat": whole.choices[0].message.content,
            "streams": streams,
            "completion": completion.choices[0].text,
            "models": [model.id async for model in client.models.list()],
            "missing_model": missing,
        }


async def _stream(client: openai.AsyncOpenAI, asked: dict[str, Any]) -> str:
    text = ""
    async for chunk in await client.chat.completions.create(**asked, stream=True):
        text += chunk.choices[0].delta.content or ""
    return text
