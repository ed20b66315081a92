"""OpenAI's agents SDK, over chat completions."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner

from tests.process.clients.asked import API_KEY, MAX_TOKENS, MODEL, NO_MODEL, QUESTION, TOO_HOT


def facts(base_url: str) -> dict[str, Any]:
    return asyncio.run(_facts(base_url))


async def _facts(base_url: str) -> dict[str, Any]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key=API_KEY, max_retries=0) as client:
        agent = _agent(client, MODEL, 0.0)
        whole = await Runner.run(agent, QUESTION)
        streamed = Runner.run_streamed(agent, QUESTION)
        pieces = [
            event.data.delta
            async for event in streamed.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
        return {
            "chat": whole.final_output,
            "usage": whole.raw_responses[0].usage.total_tokens,
            "stream": "".join(pieces),
            "stream_final": streamed.final_output,
            "bad_request": await _error(_agent(client, MODEL, TOO_HOT)),
            "not_found": await _error(_agent(client, NO_MODEL, 0.0)),
        }


def _agent(client: openai.AsyncOpenAI, model: str, temperature: float) -> Agent:
    return Agent(
        name="agent",
        model=OpenAIChatCompletionsModel(model=model, openai_client=client),
        model_settings=ModelSettings(temperature=temperature, max_tokens=MAX_TOKENS),
    )


async def _error(agent: Agent) -> str | None:
    try:
        await Runner.run(agent, QUESTION)
    except (openai.BadRequestError, openai.NotFoundError) as error:
        return type(error).__name__
    return None
