"""OpenAI's agents SDK: tools and structured output, over chat completions and its default."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
)

from tests.process.clients.asked import (
    API_KEY,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
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
    async with openai.AsyncOpenAI(base_url=base_url, api_key=API_KEY, max_retries=0) as client:
        newer = OpenAIResponsesModel(model=MODEL, openai_client=client)
        return {
            **await _understood(OpenAIChatCompletionsModel(model=MODEL, openai_client=client)),
            "responses": {
                "text": (await Runner.run(_agent(newer), QUESTION)).final_output,
                **await _understood(newer),
                "bad_request": await _error(newer),
            },
        }


async def _understood(model: Any) -> dict[str, Any]:
    person = await Runner.run(_agent(model, output_type=Person), QUESTION)
    return {
        **await _tools(model),
        "required": await _tools_of(model, NEEDS_NO_TOOL, "required"),
        "named": await _tools_of(model, NEEDS_NO_TOOL, TOOL),
        "parsed": told(person.final_output),
        "parsed_stream": await _streamed_person(model),
        **await _reasoning(model),
    }


def _agent(model: Any, *, settings: dict[str, Any] | None = None, **more: Any) -> Any:
    asked = ModelSettings(**{"temperature": 0, "max_tokens": MORE_TOKENS, **(settings or {})})
    return Agent(name="agent", model=model, model_settings=asked, **more)


async def _tools(model: Any) -> dict[str, Any]:
    asked: list[str] = []

    @function_tool(name_override=TOOL, description_override=TOOL_ABOUT)  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        asked.append(city)
        return TOOL_RESULT

    agent = _agent(model, tools=[get_weather])
    whole = await Runner.run(agent, NEEDS_TOOL)
    streamed = Runner.run_streamed(agent, NEEDS_TOOL)
    async for _ in streamed.stream_events():
        pass
    return {"asked": asked, "answer": whole.final_output, "answer_stream": streamed.final_output}


async def _tools_of(model: Any, question: str, choice: str) -> list[str]:
    """Return the tools that are called when they are required."""
    called: list[str] = []

    @function_tool(name_override=TOOL, description_override=TOOL_ABOUT)  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        called.append(TOOL)
        return TOOL_RESULT

    agent = _agent(
        model,
        tools=[get_weather],
        settings={"tool_choice": choice},
        tool_use_behavior="stop_on_first_tool",
    )
    await Runner.run(agent, question)
    return called


async def _streamed_person(model: Any) -> dict[str, Any]:
    streamed = Runner.run_streamed(_agent(model, output_type=Person), QUESTION)
    async for _ in streamed.stream_events():
        pass
    return told(streamed.final_output)


async def _reasoning(model: Any) -> dict[str, Any]:
    agent = _agent(model, settings={"extra_body": THINKING})
    whole = await Runner.run(agent, QUESTION)
    thoughts = [
        part.text
        for item in whole.new_items
        if item.type == "reasoning_item"
        for part in item.raw_item.summary
    ]
    return {"reasoning": "".join(thoughts), "reasoned": whole.final_output}


async def _error(model: Any) -> str | None:
    try:
        await Runner.run(_agent(model, settings={"temperature": TOO_HOT}), QUESTION)
    except openai.BadRequestError as error:
        return str(error.param)
    return None
