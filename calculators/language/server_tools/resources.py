"""`ToolsResourceInitializer`: makes the side packet ``TOOLS``."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from calculators.kit.child_process.supervisor import ChildState, LoadError, SupervisedProcess
from calculators.kit.tasks.nodes import naming_node
from calculators.language.server_tools.messages import (
    Abandon,
    CallTool,
    LoadFunctions,
    LoadServers,
    Result,
    ToolSpec,
    ToolsReady,
    decode_answer,
    encode,
)
from calculators.language.server_tools.toolbox import Lane, Toolbox, ToolResult, ToolsRefused
from calculators.language.server_tools.tools_options import (
    CALCULATOR,
    ToolsSettings,
    code_files,
    read_settings,
)
from graph_runtime import (
    LoadProgress,
    NodePlan,
    NodeResource,
    ResourceError,
    ResourceSettings,
    identity_of,
)

_numbers: Final = itertools.count()


class _FunctionProcess(SupervisedProcess[ToolsReady]):
    """One process, which makes one call at a time; a call that takes too long is killed with it."""

    def __init__(
        self, load: LoadFunctions, name: str, on_free: Callable[[_FunctionProcess], None]
    ) -> None:
        self._on_free = on_free
        self._number = -1
        self._done: asyncio.Future[ToolResult] | None = None
        self._call_timer: asyncio.TimerHandle | None = None
        self._limit = ""
        super().__init__(
            name=name,
            module="calculators.language.server_tools.function_process",
            load=load,
            decode=decode_answer,
            ready=ToolsReady,
            hang_seconds=_NEVER,  # each call has its own limit
        )

    def call(self, tool: str, arguments: str, seconds: float) -> asyncio.Future[ToolResult]:
        """Begin a call; the process is idle. The future gets its result, failures too."""
        loop = asyncio.get_running_loop()
        self._number = next(_numbers)
        self._done = loop.create_future()
        self._limit = ""
        self._call_timer = loop.call_later(seconds, self._stop, seconds)
        self.send(encode(CallTool(self._number, "", tool, arguments, seconds)))
        return self._done

    def _stop(self, seconds: float) -> None:
        self._limit = f"the tool took longer than {seconds:g} s"
        self.kill("a tool took too long")

    def take(self, message: Any) -> None:
        if isinstance(message, Result) and message.number == self._number:
            self._end(ToolResult(message.output, message.error))
            self._on_free(self)

    def caused_end(self) -> bool:
        return self._done is not None

    def back(self) -> None:
        self._on_free(self)

    def end_work(self) -> None:
        self.down("it was shut down")

    def down(self, reason: str) -> None:
        self._end(ToolResult("", self._limit or f"the tool's process ended: {reason}"))

    def _end(self, result: ToolResult) -> None:
        if self._call_timer is not None:
            self._call_timer.cancel()
        done, self._done = self._done, None
        if done is not None and not done.done():
            done.set_result(result)


class FunctionLane:
    """Processes that have the same functions; calls wait for one that is idle."""

    def __init__(self, load: LoadFunctions, name: str, processes: int) -> None:
        """``name``: of a process, for messages."""
        self._workers = [
            _FunctionProcess(load, f"{name} {number}" if processes > 1 else name, self._free)
            for number in range(1, processes + 1)
        ]
        self._idle: list[_FunctionProcess] = []
        self._waiting: deque[asyncio.Future[_FunctionProcess]] = deque()

    async def start(self, progress: LoadProgress | None = None) -> ToolsReady:
        """Start all processes; returns the functions.

        Raises:
            LoadError: a module cannot be imported, or has no tools; the text names it.
        """
        first, *others = self._workers
        ready = await first.start(progress)
        self._free(first)
        started = await asyncio.gather(
            *(worker.start() for worker in others), return_exceptions=True
        )
        for failure in started:
            if isinstance(failure, BaseException):
                raise failure
        for worker in others:
            self._free(worker)
        return ready

    @property
    def pids(self) -> list[int]:
        """The processes that there are now."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

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
        await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _take_worker(self) -> _FunctionProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.state is ChildState.READY:
                return worker
        waiting: asyncio.Future[_FunctionProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._free(waiting.result())
            raise

    def _free(self, worker: _FunctionProcess) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(worker)
                return
        if worker not in self._idle:
            self._idle.append(worker)


#: Seconds that the process may take beyond a call's limit before it counts as hung: it first looks
#: whether the tool's server still answers, for 5 s.
_GRACE_SECONDS: Final = 10.0
#: Seconds that the servers' programs have to end before the process is killed.
_STOP_SECONDS: Final = 8.0
_NEVER: Final = 1e6


class McpLane(SupervisedProcess[ToolsReady]):
    """One process with the sessions of all MCP servers of a node; any number of calls at a time.

    When the process ends, its calls fail and it is restarted.
    """

    def __init__(self, load: LoadServers, name: str) -> None:
        """``name``: of the process, for messages."""
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[ToolResult]] = {}
        super().__init__(
            name=name,
            module="calculators.language.server_tools.mcp_process",
            load=load,
            decode=decode_answer,
            ready=ToolsReady,
            hang_seconds=_NEVER,  # each call has its own limit
            stop_seconds=_STOP_SECONDS,
        )

    async def call(self, spec: ToolSpec, arguments: str, seconds: float) -> ToolResult:
        """Make a call; failures are results, too."""
        if self.unavailable_reason:
            return ToolResult("", f'the tool server "{spec.server}" is being restarted')
        number = next(self._numbers)
        done: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._asked[number] = done
        try:
            self.send(encode(CallTool(number, spec.server, spec.name, arguments, seconds)))
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await done
        except TimeoutError:
            self.kill("it has not answered in time")
            return ToolResult("", f"the tool took longer than {seconds:g} s")
        except asyncio.CancelledError:
            self.send(encode(Abandon(number)))
            raise
        finally:
            self._asked.pop(number, None)

    # See `SupervisedProcess` ----------------------------------------------------------------------

    def take(self, message: Any) -> None:
        if isinstance(message, Result):
            done = self._asked.pop(message.number, None)
            if done is not None and not done.done():
                done.set_result(ToolResult(message.output, message.error))

    def end_work(self) -> None:
        self.down("")

    def down(self, reason: str) -> None:
        asked, self._asked = self._asked, {}
        for done in asked.values():
            if not done.done():
                done.set_result(ToolResult("", "the tool servers ended before they answered"))


RESOURCES_TAG = "TOOLS"


class ToolsResourceInitializer:
    """Starts the processes of every `ToolsCalculator` node."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        with naming_node(node):
            read_settings(node, settings)
        return ()

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`. All code that tools may import counts, as far as
        it is beside the graph or in the packages of the modules."""
        with naming_node(node):
            read = read_settings(node, settings)
        return identity_of(read, files=code_files(read))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: the calculator itself reads the bounds."""
        return resource

    async def make(self, node: NodePlan, settings: ResourceSettings) -> Toolbox:
        with naming_node(node):
            read = await asyncio.to_thread(read_settings, node, settings)
            try:
                return await load_toolbox(read, node.config.name, settings.progress)
            except (LoadError, ToolsRefused) as error:
                raise ResourceError(str(error)) from error


async def load_toolbox(settings: ToolsSettings, name: str, progress: LoadProgress) -> Toolbox:
    """Start the processes of a node; if one fails, all are ended.

    Raises:
        LoadError: a server or module cannot be loaded.
        ToolsRefused: their tools cannot be offered.
    """
    lanes: list[FunctionLane | McpLane] = []
    if settings.python:
        functions = LoadFunctions(
            list(settings.python),
            str(settings.directory),
            list(settings.allow_paths),
            settings.max_output_bytes,
        )
        lanes.append(
            FunctionLane(functions, f'tools process of "{name}"', settings.python_processes)
        )
    if settings.servers:
        servers = LoadServers(
            list(settings.servers), str(settings.directory), settings.max_output_bytes
        )
        lanes.append(McpLane(servers, f'tool server process of "{name}"'))
    started: list[tuple[Lane, Sequence[ToolSpec]]] = []
    try:
        for lane, part in zip(lanes, progress.split(*(1.0 for _ in lanes)), strict=True):
            started.append((lane, (await lane.start(part)).tools))
            part.finish()
        return Toolbox(
            started,
            call_seconds=settings.call_seconds,
            urls={server.label: server.url for server in settings.servers if server.url},
            may_call=settings.may_call,
        )
    except BaseException:
        await asyncio.gather(*(lane.close() for lane in lanes))
        raise
