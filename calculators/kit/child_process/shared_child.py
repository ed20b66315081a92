"""A child process that several workers of one server share, from a worker's side.

In a server of one process, `make_child` makes an ordinary `ChildProcess`. In a worker, `share_by`
has said how to reach the `ChildPool` of the process that started the worker. Their messages::

    worker -> pool   Want, then KillShared or Release
    pool -> worker   SharedPhase now and then, SharedUp, then SharedGone; or SharedGone alone

Every message names the use: a number that the worker has chosen for one life of one child. A
released use gets no further message.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from calculators.kit.child_process.child_process import ChildProcess, FrameProtocol
from calculators.kit.child_process.framing import Frame, FramingError, Piece


class Want(msgspec.Struct, frozen=True, tag="want", array_like=True):
    """Start a child, or use one that was started for the same words.

    Attributes:
        module: run with ``python -m``.
        load: the encoded first message to it.
        environment: variables for it, unless the environment has them.
        name: for logs.
    """

    use: int
    module: str
    load: bytes
    environment: dict[str, str]
    name: str


class Release(msgspec.Struct, frozen=True, tag="release", array_like=True):
    """The worker needs the child no longer; without a worker it is stopped."""

    use: int


class KillShared(msgspec.Struct, frozen=True, tag="kill", array_like=True):
    """Kill the child, for all workers; ``reason`` is logged."""

    use: int
    reason: str


class SharedPhase(msgspec.Struct, frozen=True, tag="phase", array_like=True):
    """A message of a child that is loading, as a frame; ``pid`` is the child's."""

    use: int
    pid: int
    frame: bytes


class SharedUp(msgspec.Struct, frozen=True, tag="up", array_like=True):
    """The child is ready: ``ready`` is its message, as a frame; connect to ``path``."""

    use: int
    pid: int
    path: str
    ready: bytes


class SharedGone(msgspec.Struct, frozen=True, tag="gone", array_like=True):
    """The child has ended; the use is over."""

    use: int
    reason: str


FromWorker = Want | Release | KillShared
ToWorker = SharedPhase | SharedUp | SharedGone


#: Seconds between the end of the connection and the report of the child's end; without a report the
#: child lives, but is of no use here.
_REPORT_SECONDS: Final = 2.0


class Child(Protocol):
    """A child process as its supervisor sees it; see `ChildProcess`."""

    @property
    def pid(self) -> int: ...

    @property
    def has_crashed(self) -> bool: ...

    async def start(
        self, module: str, defaults: Mapping[str, str] = MappingProxyType({}), *, first: bytes = b""
    ) -> None: ...

    def send(self, *pieces: Piece) -> None: ...

    def stop(self) -> None: ...

    def kill(self, reason: str) -> None: ...

    async def wait(self) -> None: ...


class Sharing:
    """A worker's way to the pool: the uses of this process, by their numbers."""

    def __init__(self, send: Callable[[FromWorker], None], workers: int) -> None:
        """``send`` sends to the pool; ``workers`` is the number of processes that share."""
        self.send = send
        self.workers = workers
        self._numbers = itertools.count()
        self._uses: dict[int, SharedChild] = {}

    def begin(self, child: SharedChild) -> int:
        number = next(self._numbers)
        self._uses[number] = child
        return number

    def end(self, number: int) -> None:
        self._uses.pop(number, None)

    def take(self, message: ToWorker) -> None:
        """Handle a message of the pool. Messages about ended uses are ignored."""
        child = self._uses.get(message.use)
        if child is not None:
            child.take(message)


class _Here:
    sharing: Sharing | None = None


_here = _Here()


def share_by(sharing: Sharing | None) -> None:
    """Share children through a pool from now on; None: no longer."""
    _here.sharing = sharing


def sharers() -> int:
    """Return the number of processes that may use one shared child."""
    return 1 if _here.sharing is None else _here.sharing.workers


def sharing_here() -> Sharing | None:
    """Return the way to the pool; None if this process is no worker."""
    return _here.sharing


def make_child(
    on_frame: Callable[[Frame], None],
    on_end: Callable[[str], None],
    name: str,
    sharing: Sharing | None = None,
) -> Child:
    """Make a child; ``sharing``: the way to a pool whose workers share it."""
    if sharing is not None:
        return SharedChild(sharing, on_frame, on_end, name)
    return ChildProcess(on_frame, on_end, name)


class SharedChild(FrameProtocol):
    """One life of a child that other workers use too; the same interface as `ChildProcess`.

    The first message goes to the pool, which starts the child with it or finds one that was started
    with the same. Further messages go to the child by a connection of this worker's own.
    """

    def __init__(
        self,
        sharing: Sharing,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
        name: str,
    ) -> None:
        super().__init__()
        self._sharing = sharing
        self._on_frame = on_frame
        self._on_end = on_end
        self._name = name
        self._use = -1
        self._module = ""
        self._environment: dict[str, str] = {}
        self._pid = 0
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id; 0 until it is known."""
        return self._pid

    @property
    def has_crashed(self) -> bool:
        """False: the request at fault may be another worker's, so no request is blamed."""
        return False

    async def start(
        self, module: str, defaults: Mapping[str, str] = MappingProxyType({}), *, first: bytes = b""
    ) -> None:
        """Note the program. The first message, now or sent later, starts it."""
        self._module = module
        self._environment = dict(defaults)
        if first:
            self.send(first)

    def send(self, *pieces: Piece) -> None:
        """See `ChildProcess.send`."""
        if self._use < 0:
            self._use = self._sharing.begin(self)
            load = b"".join(pieces)
            self._sharing.send(Want(self._use, self._module, load, self._environment, self._name))
            return
        super().send(*pieces)

    def stop(self) -> None:
        """Stop using the child. It goes on for others."""
        if self._use >= 0 and not self._is_over.is_set():
            self._sharing.send(Release(self._use))
        self._end("it is not used any more")

    def kill(self, reason: str) -> None:
        """Kill the child for all workers; each gets ``reason``."""
        if self._use >= 0:
            self._sharing.send(KillShared(self._use, reason))

    async def wait(self) -> None:
        """Return when the use is over."""
        await self._is_over.wait()

    # The pool -------------------------------------------------------------------------------------

    def take(self, message: ToWorker) -> None:
        """Handle a message of the pool about this use."""
        match message:
            case SharedPhase(pid=pid, frame=frame):
                self._pid = pid
                self._on_frame(frame)
            case SharedUp():
                self._pid = message.pid
                self._connecting = asyncio.create_task(self._connect(message))
            case SharedGone(reason=reason):
                self._end(reason)

    async def _connect(self, up: SharedUp) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self, up.path)
        except OSError:
            self._await_report()  # it ended meanwhile
        else:
            if not self._is_over.is_set():
                self._on_frame(up.ready)

    def _await_report(self) -> None:
        if not self._is_over.is_set() and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_REPORT_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._sharing.send(Release(self._use))
        self._end("it has closed the connection")

    def _end(self, reason: str) -> None:
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._sharing.end(self._use)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._on_end(reason)

    # FrameProtocol --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._is_over.is_set() and self._transport is not None:
            self._transport.abort()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._buffer.received(nbytes):
                if self._is_over.is_set():
                    return
                self._on_frame(frame)
        except FramingError as error:
            self.kill(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._await_report()
