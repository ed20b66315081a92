"""OpenAI's asynchronous client: tools, structured output, responses, all at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai

from tests.process.clients.asked import (
    API_KEY,
    CHAT_TOOLS,
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    QUESTION,
)
from tests.process.clients.person import Person, told

# The client checks arguments itself, and requires strict tools for that.
_STRICT = [{**tool, "function": {**tool["function"], "strict": True}} for tool in CHAT_TOOLS]


def facts(base_url: str) -> dict[str, Any]:
    return asyncio.run(_facts(base_url))


async def _facts(base_url: str) -> dict[str, Any]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key=API_KEY, max_retries=0) as client:
        calls, persons, text = await asyncio.gather(
            asyncio.gather(*(_streamed_call(client) for _ in range(3))),
            asyncio.gather(*(_streamed_person(client) for _ in range(3))),
            _streamed_response(client),
        )
        return {"streamed_calls": calls, "parsed_streams": persons, "response_stream": text}


async def _streamed_call(client: openai.AsyncOpenAI) -> list[Any]:
    async with client.chat.completions.stream(
        model=MODEL,
        messages=[{"role": "user", "content": NEEDS_TOOL}],
        tools=_STRICT,
        temperature=0,
        max_tokens=MORE_TOKENS,
    ) as events:
        final = await events.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]


async def _streamed_person(client: openai.AsyncOpenAI) -> dict[str, Any]:
    async with client.chat.completions.stream(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        response_format=Person,
        temperature=0,
        max_tokens=MORE_TOKENS,
    ) as events:
        final = await events.get_final_completion()
    return told(final.choices[0].message.parsed)


async def _streamed_response(client: openai.AsyncOpenAI) -> str:
    async with client.responses.stream(
        model=MODEL, input=QUESTION, temperature=0, max_output_tokens=MORE_TOKENS
    ) as events:
        text: str = (await events.get_final_response()).output_text
    return text
