"""Pydantic AI, which checks answers the most strictly."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.process.clients.asked import API_KEY, MAX_TOKENS, MODEL, NO_MODEL, QUESTION, TOO_HOT


def facts(base_url: str) -> dict[str, Any]:
    return asyncio.run(_facts(base_url))


async def _facts(base_url: str) -> dict[str, Any]:
    agent = _agent(base_url, MODEL, 0.0)
    whole = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as streamed:
        pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
    return {
        "chat": whole.output,
        "usage": _total(whole),
        "stream": "".join(pieces),
        "stream_usage": _total(streamed),
        "bad_request": await _status(_agent(base_url, MODEL, TOO_HOT)),
        "not_found": await _status(_agent(base_url, NO_MODEL, 0.0)),
    }


def _agent(base_url: str, model: str, temperature: float) -> Agent:
    provider = OpenAIProvider(base_url=base_url, api_key=API_KEY)
    settings = {"temperature": temperature, "max_tokens": MAX_TOKENS}
    return Agent(OpenAIChatModel(model, provider=provider), model_settings=settings)


def _total(result: Any) -> int:
    usage = result.usage() if callable(result.usage) else result.usage
    total: int = usage.input_tokens + usage.output_tokens
    return total


async def _status(agent: Agent) -> int | None:
    try:
        await agent.run(QUESTION)
    except ModelHTTPError as error:
        status: int = error.status_code
        return status
    return None
