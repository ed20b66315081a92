"""A Model Context Protocol client: the tools of an MCP server, called by a served model.

The loop of every agent: send the conversation, run the tools that the model calls, append their
results, repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from openai import AsyncOpenAI

SERVER = Path(__file__).with_name("weather_mcp_server.py")
MAX_TURNS = 4


async def answer(question: str, base_url: str, model: str) -> str:
    """Return the model's text once it calls no more tools."""
    parameters = StdioServerParameters(command=sys.executable, args=[str(SERVER)])
    async with (
        Client(parameters) as tools,
        AsyncOpenAI(base_url=base_url, api_key="unused") as openai,
    ):
        offered: list[Any] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": tool.input_schema,
                },
            }
            for tool in (await tools.list_tools()).tools
        ]
        messages: list[Any] = [{"role": "user", "content": question}]
        for _ in range(MAX_TURNS):
            completion = await openai.chat.completions.create(
                model=model, messages=messages, tools=offered, temperature=0, max_tokens=120
            )
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                assert call.type == "function"
                print(f"[{call.function.name}: {call.function.arguments}]")
                result = await tools.call_tool(
                    call.function.name, json.loads(call.function.arguments)
                )
                text = "\n".join(part.text for part in result.content if part.type == "text")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        raise RuntimeError(f"no answer after {MAX_TURNS} turns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default="What is the weather in Paris?")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v3")
    parser.add_argument("--model", default="demo")
    args = parser.parse_args()
    print(asyncio.run(answer(args.question, args.base_url, args.model)))


if __name__ == "__main__":
    main()
