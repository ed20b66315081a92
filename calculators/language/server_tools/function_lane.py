"""`FunctionLane`: the calls of an author's Python functions, from the server's side."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from calculators.kit.child_process.supervisor import ChildState, Supervisor
from calculators.language.server_tools.messages import (
    Call,
    LoadFunctions,
    Ready,
    Result,
    ToolSpec,
    decode_answer,
    encode,
)
from calculators.language.server_tools.tool_result import ToolResult
from graph_runtime import LoadProgress

_NEVER: Final = 1e6
_numbers: Final = itertools.count()


class _Worker:
    """One process, which makes one call at a time; a call that takes too long is killed with it."""

    def __init__(self, load: LoadFunctions, name: str, on_free: Callable[[_Worker], None]) -> None:
        self._on_free = on_free
        self._number = -1
        self._done: asyncio.Future[ToolResult] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._limit = ""
        self.child = Supervisor(
            name=name,
            module="calculators.language.server_tools.function_process",
            load=load,
            decode=decode_answer,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            on_back=lambda: on_free(self),
            is_requests_fault=lambda: self._done is not None,
            is_busy=lambda: False,  # each call has its own limit
            hang_seconds=_NEVER,
        )

    def call(self, tool: str, arguments: str, seconds: float) -> asyncio.Future[ToolResult]:
        """Begin a call; the process is idle. The future gets its result, failures too."""
        loop = asyncio.get_running_loop()
        self._number = next(_numbers)
        self._done = loop.create_future()
        self._limit = ""
        self._timer = loop.call_later(seconds, self._stop, seconds)
        self.child.send(encode(Call(self._number, "", tool, arguments, seconds)))
        return self._done

    def _stop(self, seconds: float) -> None:
        self._limit = f"the tool took longer than {seconds:g} s"
        self.child.kill("a tool took too long")

    def _take(self, message: Any) -> None:
        if isinstance(message, Result) and message.number == self._number:
            self._end(ToolResult(message.output, message.error))
            self._on_free(self)

    def _down(self, reason: str) -> None:
        self._end(ToolResult("", self._limit or f"the tool's process ended: {reason}"))

    def _end(self, result: ToolResult) -> None:
        if self._timer is not None:
            self._timer.cancel()
        done, self._done = self._done, None
        if done is not None and not done.done():
            done.set_result(result)


class FunctionLane:
    """Processes that have the same functions; calls wait for one that is idle."""

    def __init__(self, load: LoadFunctions, name: str, processes: int) -> None:
        """``name``: of a process, for messages."""
        self._workers = [
            _Worker(load, f"{name} {number}" if processes > 1 else name, self._free)
            for number in range(1, processes + 1)
        ]
        self._idle: list[_Worker] = []
        self._waiting: deque[asyncio.Future[_Worker]] = deque()

    async def start(self, progress: LoadProgress | None = None) -> list[ToolSpec]:
        """Start all processes; returns the functions.

        Raises:
            LoadError: a module cannot be imported, or has no tools; the text names it.
        """
        first, *others = self._workers
        ready: Ready = await first.child.start(progress)
        self._free(first)
        started = await asyncio.gather(
            *(worker.child.start() for worker in others), return_exceptions=True
        )
        for failure in started:
            if isinstance(failure, BaseException):
                raise failure
        for worker in others:
            self._free(worker)
        return ready.tools

    @property
    def pids(self) -> list[int]:
        """The processes that there are now."""
        return [worker.child.pid for worker in self._workers if worker.child.pid is not None]

    async def call(self, spec: ToolSpec, arguments: str, seconds: float) -> ToolResult:
        """Make a call; failures are results, too.

        A call that is cancelled goes on in its process until it ends or its time is over.
        """
        try:
            async with asyncio.timeout(seconds):
                worker = await self._take_worker()
        except TimeoutError:
            return ToolResult("", f"the tool was not begun within {seconds:g} s: others run")
        return await asyncio.shield(worker.call(spec.name, arguments, seconds))

    async def close(self) -> None:
        """End the processes; calls fail."""
        await asyncio.gather(*(worker.child.close() for worker in self._workers))
        for worker in self._workers:
            worker._down("it was shut down")

    async def _take_worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.child.state is ChildState.READY:
                return worker
        waiting: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._free(waiting.result())
            raise

    def _free(self, worker: _Worker) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(worker)
                return
        if worker not in self._idle:
            self._idle.append(worker)
