"""`Worker`: a worker's connection to the supervisor of its server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
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
from servers.contract.data_plane import DataPlane
from servers.operations.metrics.exposition import MetricsText
from servers.operations.metrics.merged_text import MergedText
from servers.server.workers.asked import Asked
from servers.server.workers.messages import (
    Action,
    Ask,
    Begin,
    Loaded,
    Look,
    Outcome,
    Peers,
    Perform,
    State,
    to_worker_decoder,
)
from servers.server.workers.shared_plane import SharedDataPlane, perform_on

#: The shortest time between two looks at the own state.
_LOOK_SECONDS: Final = 0.1
#: The time between two looks is at least this many times the duration of a look.
_REST: Final = 50.0


class Worker(FrameProtocol):
    """One worker of several: what it shares with the others, by way of the supervisor.

    Attributes:
        begin: the supervisor's first message.
    """

    def __init__(self, connection: socket.socket, begin: Begin) -> None:
        """``connection`` is the one by which ``begin`` came."""
        super().__init__()
        self.begin = begin
        self._socket = connection
        self._encode = msgspec.msgpack.Encoder().encode
        self._sharing = Sharing(self._send, begin.workers)
        self._asked = Asked()
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
        return await self._asked.ask(lambda number: self._send(Ask(number, action, model)))

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


def received_begin(connection: socket.socket) -> Begin:
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
            assert isinstance(begin, Begin), begin
            return begin


def _written(plain: str, accept: str) -> MetricsText:
    merged = MergedText()
    merged.add(plain)
    return merged.text(accept)
