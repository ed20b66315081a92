"""`McpLane`: the calls of MCP servers' tools, from the server's side."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

from calculators.kit.child_process.supervisor import Supervisor
from calculators.language.server_tools.messages import (
    Abandon,
    Call,
    LoadServers,
    Ready,
    Result,
    ToolSpec,
    decode_answer,
    encode,
)
from calculators.language.server_tools.tool_result import ToolResult
from graph_runtime import LoadProgress

#: Seconds that the process may take beyond a call's limit before it counts as hung: it first looks
#: whether the tool's server still answers, for 5 s.
_GRACE_SECONDS: Final = 10.0
#: Seconds that the servers' programs have to end before the process is killed.
_STOP_SECONDS: Final = 8.0
_NEVER: Final = 1e6


class McpLane:
    """One process with the sessions of all MCP servers of a node; any number of calls at a time.

    When the process ends, its calls fail and it is restarted.
    """

    def __init__(self, load: LoadServers, name: str) -> None:
        """``name``: of the process, for messages."""
        self._name = name
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[ToolResult]] = {}
        self._child = Supervisor(
            name=name,
            module="calculators.language.server_tools.mcp_process",
            load=load,
            decode=decode_answer,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            is_busy=lambda: False,  # each call has its own limit
            hang_seconds=_NEVER,
            stop_seconds=_STOP_SECONDS,
        )

    async def start(self, progress: LoadProgress | None = None) -> list[ToolSpec]:
        """Start all servers; returns their tools.

        Raises:
            LoadError: a server does not start; the text names it.
        """
        ready: Ready = await self._child.start(progress)
        return ready.tools

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._child.pid

    async def call(self, spec: ToolSpec, arguments: str, seconds: float) -> ToolResult:
        """Make a call; failures are results, too."""
        if self._child.unavailable_reason:
            return ToolResult("", f'the tool server "{spec.server}" is being restarted')
        number = next(self._numbers)
        done: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._asked[number] = done
        try:
            self._child.send(encode(Call(number, spec.server, spec.name, arguments, seconds)))
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await done
        except TimeoutError:
            self._child.kill("it has not answered in time")
            return ToolResult("", f"the tool took longer than {seconds:g} s")
        except asyncio.CancelledError:
            self._child.send(encode(Abandon(number)))
            raise
        finally:
            self._asked.pop(number, None)

    async def close(self) -> None:
        """End the servers and the process; calls fail."""
        await self._child.close()
        self._down("")

    # Called by the supervisor ---------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, Result):
            done = self._asked.pop(message.number, None)
            if done is not None and not done.done():
                done.set_result(ToolResult(message.output, message.error))

    def _down(self, reason: str) -> None:
        asked, self._asked = self._asked, {}
        for done in asked.values():
            if not done.done():
                done.set_result(ToolResult("", "the tool servers ended before they answered"))
