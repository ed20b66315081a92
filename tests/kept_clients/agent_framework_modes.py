"""Microsoft's agent framework: its default, which continues stored responses, and store=False."""

import asyncio
import json
import sys

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient


def clock(city: str) -> str:
    """The time of a city."""
    return f"noon in {city}"


async def facts(store: bool | None) -> list[str]:
    client = OpenAIChatClient(model="scripted", base_url=f"{sys.argv[1]}/v1", api_key="none")
    options = {} if store is None else {"store": store}
    agent = Agent(client=client, tools=[clock], default_options=options)
    session = agent.create_session()
    said = [(await agent.run("What time is it?", session=session)).text]
    text = ""
    async for piece in agent.run("And now?", session=session, stream=True):
        text += piece.text
    return [*said, text]


async def main() -> None:
    print(json.dumps({"default": await facts(None), "not stored": await facts(False)}))


asyncio.run(main())
