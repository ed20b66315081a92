"""Pydantic AI: tools, two ways to structured output, reasoning; over both APIs."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ThinkingPart, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.process.clients.asked import (
    API_KEY,
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    QUESTION,
    THINKING,
    TOO_HOT,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
)
from tests.process.clients.person import Person, told


def facts(base_url: str) -> dict[str, Any]:
    return asyncio.run(_facts(base_url))


async def _facts(base_url: str) -> dict[str, Any]:
    provider = OpenAIProvider(base_url=base_url, api_key=API_KEY)
    newer = OpenAIResponsesModel(MODEL, provider=provider)
    return {
        **await _understood(OpenAIChatModel(MODEL, provider=provider)),
        "responses": {
            "text": (await _agent(newer).run(QUESTION)).output,
            **await _understood(newer),
            "bad_request": await _status(newer),
        },
    }


async def _understood(model: Any) -> dict[str, Any]:
    return {
        **await _tools(model),
        "tool_output": await _person(model, ToolOutput(Person)),
        "native_output": await _person(model, NativeOutput(Person)),
        "native_output_stream": await _streamed_person(model, NativeOutput(Person)),
        **await _reasoning(model),
    }


def _agent(model: Any, **more: Any) -> Agent[Any, Any]:
    settings = {"temperature": 0, "max_tokens": MORE_TOKENS, **more.pop("settings", {})}
    return Agent(model, model_settings=settings, retries=0, **more)


async def _tools(model: Any) -> dict[str, Any]:
    asked: list[str] = []
    agent = _agent(model)

    @agent.tool_plain(name=TOOL, description=TOOL_ABOUT)  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        asked.append(city)
        return TOOL_RESULT

    whole = await agent.run(NEEDS_TOOL)
    calls = [
        [part.tool_name, part.args_as_dict()]
        for message in whole.all_messages()
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    async with agent.run_stream(NEEDS_TOOL) as streamed:
        pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
    return {
        "calls": calls,
        "asked": asked,
        "answer": whole.output,
        "answer_stream": "".join(pieces),
    }


async def _person(model: Any, output_type: Any) -> dict[str, Any]:
    return told((await _agent(model, output_type=output_type).run(QUESTION)).output)


async def _streamed_person(model: Any, output_type: Any) -> dict[str, Any]:
    async with _agent(model, output_type=output_type).run_stream(QUESTION) as streamed:
        return told(await streamed.get_output())


async def _reasoning(model: Any) -> dict[str, Any]:
    whole = await _agent(model, settings={"extra_body": THINKING}).run(QUESTION)
    thoughts = [
        part.content
        for message in whole.all_messages()
        for part in message.parts
        if isinstance(part, ThinkingPart)
    ]
    # The model's reasoning is sent back to it.
    after = await _agent(model).run(QUESTION, message_history=whole.all_messages())
    return {
        "reasoning": "".join(thoughts),
        "reasoned": whole.output,
        "after_a_thought": bool(after.output),
    }


async def _status(model: Any) -> int | None:
    try:
        await _agent(model, settings={"temperature": TOO_HOT}).run(QUESTION)
    except ModelHTTPError as error:
        status: int = error.status_code
        return status
    return None
