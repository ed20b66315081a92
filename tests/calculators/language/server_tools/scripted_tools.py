"""Tools that are functions of a test, in its process: for tests of what happens around calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from calculators.language.server_tools.messages import ToolSpec
from calculators.language.server_tools.toolbox import Toolbox, ToolResult

Tool = Callable[[dict[str, Any]], str]


async def no_gate() -> None:
    return


class ScriptedLane:
    """Calls functions here.

    Attributes:
        called: name and arguments of each call that was begun.
        cancelled: the number of calls that were given up.
        gate: awaited by each call.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self.called: list[tuple[str, str]] = []
        self.cancelled = 0
        self.gate: Callable[[], Awaitable[object]] = no_gate

    async def call(self, spec: ToolSpec, arguments: str, seconds: float) -> ToolResult:
        self.called.append((spec.name, arguments))
        try:
            await self.gate()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        try:
            return ToolResult(self._tools[spec.name](json.loads(arguments)))
        except ValueError as error:
            return ToolResult("", str(error))

    async def close(self) -> None:
        return


def toolbox(**tools: Tool) -> tuple[Toolbox, ScriptedLane]:
    lane = ScriptedLane(tools)
    specs = [ToolSpec("weather", name, f"Does {name}", {"type": "object"}) for name in tools]
    return Toolbox([(lane, specs)], call_seconds=20), lane
