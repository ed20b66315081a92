"""`WorkerConnection`: a worker's connection to the supervisor of its server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from calculators.kit.child_process.child_process import FrameProtocol
from calculators.kit.child_process.framing import Frame, FrameBuffer
from calculators.kit.child_process.shared_child import (
    SharedGone,
    SharedPhase,
    SharedUp,
    Sharing,
    share_by,
)
from graph_runtime import Code, GraphError, NotFoundError, UnavailableError
from servers.contract.data_plane import (
    DataPlane,
    IndexEntry,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    ReloadError,
    ServedEndpoint,
    TensorMetadata,
)
from servers.operations.metrics.exposition import MergedText, MetricsText
from servers.server.workers.messages import (
    Action,
    AskWorker,
    BeginWork,
    Entry,
    Loaded,
    Look,
    Outcome,
    Peers,
    Perform,
    State,
    WorkerAsked,
    WorkerFailure,
    to_worker_decoder,
)

READY: Final = "READY"
#: States of the index, the worst last.
_ORDER: Final = (READY, "LOADING", "UNAVAILABLE")
_AVAILABLE: Final = "AVAILABLE"

#: Lets all workers do an action; returns the outcome.
PerformInAll = Callable[[Action, str], Awaitable[Outcome]]


class SharedDataPlane:
    """Implements `servers.contract.data_plane.DataPlane`.

    Requests run on this worker's own plane. Loading, unloading and reloading happen in all workers.
    A model is ready when it is ready in each.

    Attributes:
        peers: the states of the other workers.
    """

    def __init__(self, own: DataPlane, perform: PerformInAll) -> None:
        self.own = own
        self.peers: Sequence[State] = ()
        self._perform = perform

    def state(self) -> State:
        """Return the state of this worker alone."""
        index = [Entry(e.name, e.version, e.state, e.reason) for e in self.own.index()]
        return State(self.own.is_ready, index, self.own.statuses())

    # This worker ----------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelDescription]:
        """See `DataPlane.models`."""
        return self.own.models()

    def endpoints(self) -> Sequence[ServedEndpoint]:
        """See `DataPlane.endpoints`."""
        return self.own.endpoints()

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """See `DataPlane.resolve`."""
        return await self.own.resolve(model, method, version)

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """See `DataPlane.metadata`."""
        return await self.own.metadata(model, version)

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        """See `DataPlane.inputs_of`."""
        return await self.own.inputs_of(model, version)

    def release(self, model: str) -> None:
        """See `DataPlane.release`. Other workers keep their own."""
        self.own.release(model)

    # All workers ----------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if all workers are ready."""
        return self.own.is_ready and all(peer.is_ready for peer in self.peers)

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """See `DataPlane.is_model_ready`."""
        if not self.own.is_model_ready(model, version):
            return False
        wanted = version if version not in ("", "0") else ""
        for peer in self.peers:
            states = [
                each.state
                for each in peer.index
                if each.name == model and (not wanted or each.version == wanted)
            ]
            # An adapter is not in the index; its model is loaded from the same files everywhere.
            if states and READY not in states:
                return False
        return True

    def statuses(self) -> dict[str, object]:
        """Return the status of each model in the worker where it is furthest from available."""
        found = self.own.statuses()
        for peer in self.peers:
            for name, status in peer.statuses.items():
                if name not in found or (_is_available(found[name]) and not _is_available(status)):
                    found[name] = status
        return found

    def index(self) -> Sequence[IndexEntry]:
        """Return each version with its worst state."""
        found = {(each.name, each.version): each for each in self.own.index()}
        for peer in self.peers:
            for each in peer.index:
                known = found.get((each.name, each.version))
                if known is None or _rank(each.state) > _rank(known.state):
                    entry = IndexEntry(each.name, each.version, each.state, each.reason)
                    found[each.name, each.version] = entry
        return list(found.values())

    async def reload(self) -> bool:
        """See `DataPlane.reload`."""
        return (await self._perform_or_raise(Action.RELOAD)).has_changed

    async def load(self, model: str) -> None:
        """See `DataPlane.load`."""
        await self._perform_or_raise(Action.LOAD, model)

    async def unload(self, model: str) -> None:
        """See `DataPlane.unload`."""
        await self._perform_or_raise(Action.UNLOAD, model)

    async def _perform_or_raise(self, action: Action, model: str = "") -> Outcome:
        outcome = await self._perform(action, model)
        if outcome.failure is not None:
            raise error_of(outcome.failure)
        return outcome


async def perform_on(
    plane: DataPlane, action: Action, model: str
) -> tuple[bool, WorkerFailure | None]:
    """Do an action on one worker's plane; return True if it changed anything, and a failure."""
    try:
        match action:
            case Action.RELOAD:
                return await plane.reload(), None
            case Action.LOAD:
                await plane.load(model)
            case Action.UNLOAD:
                await plane.unload(model)
            case _:
                return False, None
    except GraphError as error:
        return False, failure_of(error)
    return True, None


def failure_of(error: GraphError) -> WorkerFailure:
    """Return an error as a message."""
    if isinstance(error, ReloadError):
        return WorkerFailure(error.message, error.code.name, list(error.reloaded), error.failed)
    return WorkerFailure(error.message, error.code.name)


def error_of(failure: WorkerFailure) -> GraphError:
    """Return the error of a message."""
    if failure.failed is not None:
        return ReloadError(failure.message, failure.reloaded or (), failure.failed)
    code = Code[failure.code]
    if code is Code.NOT_FOUND:
        return NotFoundError(failure.message)
    if code is Code.UNAVAILABLE:
        return UnavailableError(failure.message)
    return GraphError(failure.message, code=code)


def _rank(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _is_available(status: Any) -> bool:
    versions = status.get("model_version_status", ()) if isinstance(status, dict) else ()
    return bool(versions) and all(each.get("state") == _AVAILABLE for each in versions)


#: The shortest time between two reads of the worker's state.
_LOOK_SECONDS: Final = 0.1
#: The time between two reads is at least this many times the duration of a read.
_REST: Final = 50.0


class WorkerConnection(FrameProtocol):
    """One worker of several: what it shares with the others, by way of the supervisor.

    Attributes:
        begin: the supervisor's first message.
    """

    def __init__(self, connection: socket.socket, begin: BeginWork) -> None:
        """``connection`` is the one by which ``begin`` came."""
        super().__init__()
        self.begin = begin
        self._socket = connection
        self._encode = msgspec.msgpack.Encoder().encode
        self._sharing = Sharing(self._send, begin.workers)
        self._asked = WorkerAsked()
        self._tasks: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()
        self._plane: SharedDataPlane | None = None
        self._metrics: Callable[[], Awaitable[MetricsText]] | None = None
        self._sent: State | None = None

    async def open(self) -> None:
        """Connect, on the running event loop. Children are shared from now on."""
        self._socket.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._socket)
        share_by(self._sharing)

    def plane_of(self, own: DataPlane) -> SharedDataPlane:
        """Return the data plane of all workers, whose requests run on ``own``."""
        self._plane = SharedDataPlane(own, self._ask)
        return self._plane

    def write_metrics(self, write: Callable[[str], Awaitable[MetricsText]]) -> None:
        """Let ``write`` make this worker's own text of metrics, for an Accept header."""
        self._metrics = lambda: write("")

    async def metrics_text(self, accept: str) -> MetricsText:
        """Return the metrics of all workers."""
        outcome = await self._ask(Action.METRICS, "")
        return await asyncio.to_thread(_written, outcome.text, accept)

    async def pause(self, seconds: float) -> None:
        """Wait until the supervisor lets all workers look for changed files."""
        await self._look.wait()
        self._look.clear()

    async def unload_again(self) -> None:
        """Unload what operators had unloaded before this worker was started."""
        assert self._plane is not None
        for name in self.begin.unloaded:
            await perform_on(self._plane.own, Action.UNLOAD, name)

    async def report(self) -> None:
        """Report each change of this worker's state. Never returns."""
        while True:
            began = time.monotonic()
            self._report_now()
            took = time.monotonic() - began
            await asyncio.sleep(max(_LOOK_SECONDS, took * _REST))

    def loaded(self, report: str) -> None:
        """Report that everything is loaded and that this worker listens."""
        self._report_now()
        self._send(Loaded(report))

    def _report_now(self) -> None:
        assert self._plane is not None
        state = self._plane.state()
        if state != self._sent:
            self._sent = state
            self._send(state)

    async def _ask(self, action: Action, model: str) -> Outcome:
        return await self._asked.ask(lambda number: self._send(AskWorker(number, action, model)))

    async def _perform(self, order: Perform) -> None:
        assert self._plane is not None
        text, has_changed, failure = "", False, None
        if order.action is Action.METRICS:
            if self._metrics is not None:
                text = (await self._metrics()).body.decode()
        else:
            own = self._plane.own
            has_changed, failure = await perform_on(own, order.action, order.model)
            if self._sent is not None:
                self._report_now()
        self._send(Outcome(order.number, has_changed, failure, text))

    # Messages -------------------------------------------------------------------------------------

    def _send(self, message: msgspec.Struct) -> None:
        self.send(self._encode(message))

    def _take(self, frame: Frame) -> None:
        message: Any = to_worker_decoder.decode(frame)
        match message:
            case SharedPhase() | SharedUp() | SharedGone():
                self._sharing.take(message)
            case Peers(states=states):
                if self._plane is not None:
                    self._plane.peers = states
            case Look():
                self._look.set()
            case Perform():
                task = asyncio.create_task(self._perform(message), name=f"{message.action} for all")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case Outcome():
                self._asked.answer(message)
            case _:
                raise AssertionError(message)

    # FrameProtocol --------------------------------------------------------------------------------

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._buffer.received(nbytes):
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None  # the supervisor is gone, and this process ends with it


def received_begin(connection: socket.socket) -> BeginWork:
    """Wait for the supervisor's first message, before there is an event loop.

    Raises:
        OSError: the supervisor is gone.
    """
    buffer = FrameBuffer()
    while True:
        count = connection.recv_into(buffer.room())
        if not count:
            raise ConnectionResetError("the supervisor is gone")
        for frame in buffer.received(count):
            begin = to_worker_decoder.decode(frame)
            assert isinstance(begin, BeginWork), begin
            return begin


def _written(plain: str, accept: str) -> MetricsText:
    merged = MergedText()
    merged.add(plain)
    return merged.text(accept)
