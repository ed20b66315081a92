"""The model of the clients: thinks, calls the tool that is offered, then answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from calculators.language import Arguments, GenerationRequest, Reasoning, ToolCall, answers


@answers
async def script(request: GenerationRequest) -> AsyncIterator[Any]:
    """Call the first tool once for each question; say how many messages there are."""
    messages = request.messages
    roles = [message["role"] for message in messages]
    last_question = max((place for place, role in enumerate(roles) if role == "user"), default=-1)
    if request.tools.items and "tool" not in roles[last_question + 1 :]:
        yield Reasoning("I need the tool.")
        yield ToolCall(request.tools.items[0]["function"]["name"], f"call_{len(roles)}")
        yield Arguments('{"city": "Paris"}')
        return
    thoughts = sum("reasoning_content" in message for message in messages)
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    yield f"{len(roles)} messages, {thoughts} thoughts, results: {', '.join(results)}"
