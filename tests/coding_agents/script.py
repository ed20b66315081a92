"""The model of the agents: calls the tools of a script in its order, then says that it is done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from calculators.language import Arguments, GenerationRequest, ToolCall, answers

#: Files beside this one: the calls, and a line for each request with what the model saw.
_FOLDER = Path(__file__).parent


@answers
async def script(request: GenerationRequest) -> AsyncIterator[Any]:
    """Answer with the next call of a tool that is offered."""
    calls = json.loads((_FOLDER / "calls.json").read_text())
    offered = [tool["function"]["name"] for tool in request.tools.items]
    done = sum(message["role"] == "tool" for message in request.messages)
    _note(offered, request)
    if calls and not calls[0][0]:
        yield calls[0][1]["text"]
    elif offered and done < len(calls) and calls[done][0] in offered:
        name, arguments = calls[done]
        yield ToolCall(name, f"call_{done}")
        yield Arguments(json.dumps(arguments))
    else:
        yield "All done."


def _note(offered: list[str], request: GenerationRequest) -> None:
    last = request.messages[-1] if request.messages else {}
    seen = {"tools": offered, "last": last, "grammars": sorted(request.tools.grammars)}
    with open(_FOLDER / "seen.jsonl", "a") as file:
        file.write(json.dumps(seen) + "\n")
