"""OpenAI's agents SDK: a session that the server keeps, and runs that continue a response."""

import asyncio
import json
import sys

import openai
from agents import Agent, OpenAIConversationsSession, OpenAIResponsesModel, Runner, function_tool


@function_tool  # type: ignore[untyped-decorator]
def clock(city: str) -> str:
    """The time of a city."""
    return f"noon in {city}"


async def main() -> None:
    async with openai.AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none") as client:
        model = OpenAIResponsesModel(model="scripted", openai_client=client)
        agent = Agent(name="agent", model=model, tools=[clock])
        session = OpenAIConversationsSession(openai_client=client)
        first = await Runner.run(agent, "What time is it?", session=session)
        second = await Runner.run(agent, "And now?", session=session)
        items = await session.get_items()
        last = await session.pop_item()
        conversation = session.session_id
        left = await session.get_items()
        continued = await Runner.run(agent, "And now?", previous_response_id=first.last_response_id)
        automatic = await Runner.run(agent, "What time is it?", auto_previous_response_id=True)
        await session.clear_session()
        try:
            await client.conversations.retrieve(conversation)
            gone = 200
        except openai.NotFoundError as error:
            gone = error.status_code
    said = [first, second, continued, automatic]
    print(
        json.dumps(
            {
                "said": [each.final_output for each in said],
                "items": [item.get("type", "message") for item in items],
                "last": last["content"][0]["text"] == second.final_output,
                "left": len(left),
                "gone": gone,
            }
        )
    )


asyncio.run(main())
