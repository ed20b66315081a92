"""An agent that looks up the weather, with OpenAI's agents SDK."""

from __future__ import annotations

import argparse
import asyncio

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool
from agents import set_tracing_disabled as disable_tracing
from openai import AsyncOpenAI


@function_tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    print(f"[get_weather: {city}]")
    return f"{city}: 12 degrees and rainy"


async def answer(question: str, base_url: str, model: str) -> str:
    """Return what the agent says after its calls of tools."""
    async with AsyncOpenAI(base_url=base_url, api_key="unused") as client:
        agent = Agent(
            name="weather agent",
            model=OpenAIChatCompletionsModel(model=model, openai_client=client),
            model_settings=ModelSettings(temperature=0, max_tokens=120),
            tools=[get_weather],
        )
        result = await Runner.run(agent, question, max_turns=4)
        return str(result.final_output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default="What is the weather in Paris?")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v3")
    parser.add_argument("--model", default="demo")
    args = parser.parse_args()
    disable_tracing(True)  # would be sent to OpenAI
    print(asyncio.run(answer(args.question, args.base_url, args.model)))


if __name__ == "__main__":
    main()
