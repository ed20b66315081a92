"""pydantic-ai: a model of responses that goes on from the last one, by itself and by an id."""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=f"{sys.argv[1]}/v1", api_key="none")
agent = Agent(OpenAIResponsesModel("scripted", provider=provider))


@agent.tool_plain  # type: ignore[untyped-decorator]
def clock(city: str) -> str:
    """The time of a city."""
    return f"noon in {city}"


async def main() -> None:
    auto = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    first = await agent.run("What time is it?", model_settings=auto)
    second = await agent.run("And now?", message_history=first.all_messages(), model_settings=auto)
    last = first.new_messages()[-1].provider_response_id
    named = OpenAIResponsesModelSettings(openai_previous_response_id=last)
    third = await agent.run("And now?", model_settings=named)
    plain = await agent.run("What time is it?")
    async with agent.run_stream(
        "And now?", message_history=plain.all_messages(), model_settings=auto
    ) as stream:
        streamed = await stream.get_output()
    said = [first.output, second.output, third.output, plain.output, streamed]
    print(json.dumps({"said": said}))


asyncio.run(main())
