"""`SupervisedProcess`: a child process that is kept alive: start, watch, restart with back-off.

::

    STOPPED --start--> LOADING --ready--> READY --end--> BACKING_OFF --delay over--> LOADING
                          | end, first time: `start` raises, STOPPED
                          | end, later: BACKING_OFF
    any --close--> CLOSED
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import msgspec

from calculators.kit.child_process.back_off import BackOff
from calculators.kit.child_process.framing import Frame, Piece
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log
from calculators.kit.child_process.shared_child import Child, make_child, sharing_here
from calculators.kit.memory import mapped_part
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, LoadProgress

#: Most threads that a child computes with, and so the most processor seconds per second.
_THREADS: Final = 2.0
#: Seconds between two checks of a child that is near its limit.
_SHORTEST_PAUSE: Final = 0.02


def cpu_seconds(pid: int) -> float | None:
    """Processor time (user and system) in seconds that a process has used; None if unknown.

    The process must be a child that has not been waited for: else the number may be another's.
    """
    if sys.platform != "linux":
        return None
    try:
        # The clock of a process, made of its id as clock_getcpuclockid(3) does on Linux.
        # /proc/PID/stat counts in hundredths of a second, too coarse for questions of a few
        # milliseconds.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


class Overrun(Enum):
    """The limit that was exceeded.

    Attributes:
        CPU: the child computed for too long: the request is too much work.
        WALL: the child was stopped, starved, or hangs: not the client's fault.
    """

    CPU = "cpu"
    WALL = "wall"


class WorkLimit:
    """Watches one piece of work of a child, from now until `stop`. On the running event loop.

    Only processor time measures the work: wall time also passes while a child is stopped or gets no
    processor. On systems that do not report processor time, wall time takes its place.
    """

    def __init__(
        self, pid: int, *, cpu: float, wall: float, on_overrun: Callable[[Overrun], None]
    ) -> None:
        """``cpu``, ``wall``: limits in seconds. ``on_overrun`` is called once, at most."""
        self._pid = pid
        self._cpu = cpu
        self._wall = wall
        self._on_overrun = on_overrun
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._cpu_began = cpu_seconds(pid)
        self._last_used = 0.0
        # The limit cannot be reached earlier than this, so most questions end before the first
        # check.
        pause = max(min(cpu / _THREADS, wall), _SHORTEST_PAUSE)
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(pause, self._watch)

    @property
    def used(self) -> float:
        """Processor seconds since the beginning; after the child's end, as last measured."""
        if self._cpu_began is None:
            return self._loop.time() - self._began
        now = cpu_seconds(self._pid)
        if now is not None:
            self._last_used = now - self._cpu_began
        return self._last_used

    def stop(self) -> float:
        """Stop watching, because the work is done; returns `used`. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return self.used

    def _watch(self) -> None:
        left = self._cpu - self.used
        left_wall = self._wall - (self._loop.time() - self._began)
        if left <= 0 or left_wall <= 0:
            self._timer = None
            self._on_overrun(Overrun.CPU if left <= 0 else Overrun.WALL)
            return
        pause = max(min(left / _THREADS, left_wall), _SHORTEST_PAUSE)
        self._timer = self._loop.call_later(pause, self._watch)


log = logging.getLogger("graphrt.child")

#: A busy child that has been silent this long is reported as not ready; it may come back.
STALL_SECONDS: Final = 5.0
#: Seconds that a request waits for a child that is being started.
START_SECONDS: Final = 60.0
#: Seconds after which a client may retry a request that failed through no fault of its own.
RETRY_AFTER: Final = 1.0
_STOP_SECONDS: Final = 2.0


class ChildState(StrEnum):
    STOPPED = "STOPPED"
    LOADING = "LOADING"
    READY = "READY"
    BACKING_OFF = "BACKING_OFF"
    CLOSED = "CLOSED"


class ChildEvent(StrEnum):
    START = "start"
    READY = "ready"
    END = "end"
    FIRST_LOAD_FAILED = "first load failed"
    DELAY_OVER = "delay over"
    CLOSE = "close"


TRANSITIONS: Final[dict[tuple[ChildState, ChildEvent], ChildState]] = {
    (ChildState.STOPPED, ChildEvent.START): ChildState.LOADING,
    (ChildState.LOADING, ChildEvent.READY): ChildState.READY,
    (ChildState.LOADING, ChildEvent.FIRST_LOAD_FAILED): ChildState.STOPPED,
    (ChildState.LOADING, ChildEvent.END): ChildState.BACKING_OFF,
    (ChildState.READY, ChildEvent.END): ChildState.BACKING_OFF,
    (ChildState.BACKING_OFF, ChildEvent.DELAY_OVER): ChildState.LOADING,
    **{(state, ChildEvent.CLOSE): ChildState.CLOSED for state in ChildState},
}


#: States in which waiting does not help.
_SETTLED: Final = (ChildState.STOPPED, ChildState.READY, ChildState.CLOSED)


class LoadError(Exception):
    """The child could not load; the text says why."""


def unavailable(reason: str) -> RequestError:
    """Return the error of a request whose process cannot work now."""
    return RequestError(reason, code=Code.UNAVAILABLE, retry_after=RETRY_AFTER)


ReadyT = TypeVar("ReadyT", bound=msgspec.Struct)


#: All that there are, for `running_children`.
_supervised: Final[WeakSet[SupervisedProcess[Any]]] = WeakSet()


def running_children() -> list[tuple[str, int, float | None]]:
    """Return name, process id and `cpu_seconds` of each supervised child that runs, by name."""
    found = [(each.name, pid, cpu_seconds(pid)) for each in _supervised if (pid := each.pid)]
    return sorted(found)


class SupervisedProcess(Generic[ReadyT]):
    """Runs one child after another, all loaded with the same message.

    A subclass says what the child's messages mean, and what becomes of the work that a child had
    when it ended: it overrides the methods under "What a subclass says".

    Attributes:
        name: see below.
        state: see the table at the top.
        send: sends an encoded message, in pieces or whole. It is lost unless the state is READY.
        restarts: the number of times that the process was started again.
        was_hung: the last child was killed because it hung.
        has_crashed: the last child that ended did so by its own fault.

    Args:
        name: the child's name in logs, ``engine of "demo"``.
        module: run with ``python -m``.
        load: the first message to each child.
        decode: decodes a frame to a message: a `LoadingPhase`, a `LoadFailed`, a `Log`, one of type
            ``ready``, or another.
        hang_seconds: seconds that a busy child may be silent before it is killed.
        stall_seconds: seconds of silence after which a busy child counts as unavailable; more than
            an answer takes.
        stop_seconds: seconds that it may take to stop before it is killed; None for a short time.
        environment: variables for each child, unless the server's environment has them.
        is_shared: one child serves all workers of a server. It takes connections besides the
            parent's, so ``module`` answers each frame on the connection that it came by.
    """

    def __init__(
        self,
        *,
        name: str,
        module: str,
        load: msgspec.Struct,
        decode: Callable[[Frame], Any],
        ready: type[ReadyT],
        hang_seconds: float,
        stall_seconds: float = STALL_SECONDS,
        stop_seconds: float | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        is_shared: bool = False,
    ) -> None:
        self.name = name
        _supervised.add(self)
        self._module = module
        self._load = msgspec.msgpack.encode(load)
        self._decode = decode
        self._ready_type = ready
        self._hang_seconds = hang_seconds
        self._stall_seconds = stall_seconds
        self._stop_seconds = stop_seconds
        self._environment = environment
        self._sharing = sharing_here() if is_shared else None
        self.state = ChildState.STOPPED
        #: Set while nobody need wait for the state to become READY: it is, or a start has failed.
        self._settled = asyncio.Event()
        self._settled.set()
        self._child: Child | None = None
        self.send: Callable[..., object] = _lose
        self._first: asyncio.Future[ReadyT] | None = None
        self._progress: LoadProgress | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self._back_off = BackOff()
        self._ready_at = 0.0
        self._heard_at = 0.0
        self._last_reason = ""
        self.restarts = 0
        self.was_hung = False
        self.has_crashed = False

    @property
    def pid(self) -> int | None:
        """The running child's process id."""
        return self._child.pid if self._child is not None else None

    @property
    def unavailable_reason(self) -> str:
        """The reason why the child cannot work now, in plain words; "" while it can."""
        match self.state:
            case ChildState.READY:
                silence = self.silence
                if silence > self._stall_seconds:
                    return f"the {self.name} has not answered for {silence:.0f} s"
                return ""
            case ChildState.CLOSED:
                return f"the {self.name} is shut down"
            case ChildState.STOPPED:
                return f"the {self.name} is not loaded"
            case _:
                why = f" ({self._last_reason})" if self._last_reason else ""
                return f"the {self.name} is starting{why}"

    def unavailable(self) -> RequestError:
        """Return the error of a request that needs the child, which cannot work now."""
        return unavailable(self.unavailable_reason or f"the {self.name} is starting")

    async def until_ready(self) -> None:
        """Wait for a child that is being started.

        Raises:
            RequestError: UNAVAILABLE: there is none, it could not load, or it takes too long.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), START_SECONDS)
        if self.state is not ChildState.READY:
            raise self.unavailable()

    @property
    def silence(self) -> float:
        """Seconds for which the child has owed an answer; 0 if it owes none."""
        if self.state is not ChildState.READY or not self.is_busy:
            return 0.0
        return asyncio.get_running_loop().time() - self._heard_at

    def expect_answer(self) -> None:
        """Note that the child owes an answer from now on: silence counts from here."""
        self._heard_at = asyncio.get_running_loop().time()

    # What a subclass says -------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True while the child owes an answer; silence then means that it hangs."""
        return False

    def take(self, message: Any) -> None:
        """Take a message of a child that is ready."""

    def caused_end(self) -> bool:
        """Return whether one request caused the end of a child that was ready.

        Then the next child starts at once, and the back-off does not grow. Called before `down`.
        """
        return False

    def down(self, reason: str) -> None:
        """End the work of a child that was ready and has ended."""

    def back(self) -> None:
        """Go on with the work: a later child is ready."""

    def cannot_restart(self, reason: str) -> None:
        """Note that a later child could not load; restarts go on."""

    def end_work(self) -> None:
        """End all work: the process is closed, so nothing begins any more."""

    # Its life, from outside -----------------------------------------------------------------------

    async def start(self, progress: LoadProgress | None = None) -> ReadyT:
        """Start the first child; returns its ready message.

        Args:
            progress: gets the phases of its loading.

        Raises:
            LoadError: the child could not load, or was closed meanwhile. Nothing is left running.
        """
        self._move(ChildEvent.START)
        first: asyncio.Future[ReadyT] = asyncio.get_running_loop().create_future()
        self._first = first
        self._progress = progress
        if progress is not None:
            progress.begin("starting a process", 0.0)
        self._starting = asyncio.create_task(self._spawn())
        try:
            # A cancelled start must still learn the process that it has made, or nobody could end
            # it.
            await asyncio.shield(self._starting)
            ready = await first
            if progress is not None:
                progress.finish()
            return ready
        except BaseException:
            first.cancel()
            if self.state is not ChildState.STOPPED:
                await self.close()
            raise
        finally:
            self._first = self._progress = None

    def kill(self, reason: str) -> None:
        """Kill the current child; a new one will be started."""
        if self._child is not None:
            self._child.kill(reason)

    async def close(self) -> None:
        """Stop for good: the work ends (`end_work`). Wait until the process is gone."""
        if self.state is not ChildState.CLOSED:
            self._move(ChildEvent.CLOSE)
            if self._timer is not None:
                self._timer.cancel()
            if self._first is not None and not self._first.done():
                self._first.set_exception(LoadError("it was shut down before it was ready"))
            self.end_work()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        child = self._child
        if child is not None:
            child.stop()
            try:
                seconds = _STOP_SECONDS if self._stop_seconds is None else self._stop_seconds
                # Two seconds by default: the end of a stop is bounded (decision 0043).
                await asyncio.wait_for(child.wait(), seconds)
            except TimeoutError:
                child.kill("it did not stop in time")
                await child.wait()

    # One life -------------------------------------------------------------------------------------

    async def _spawn(self) -> None:
        name = f"the {self.name}"
        self._child = child = make_child(self._receive, self._ended, name, self._sharing)
        try:
            await child.start(self._module, self._environment, first=self._load)
        except OSError as error:
            self._ended(f"it could not be started: {error.strerror}")

    def _receive(self, frame: Frame) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        try:
            message = self._decode(frame)
        except msgspec.MsgspecError as error:
            self.kill(f"it sent what is not a message: {error}")
            return
        if isinstance(message, Log):
            # By way of an argument: a text of the child's may contain "%".
            logging.getLogger(message.logger).log(message.level, "%s", message.text)
        elif self.state is ChildState.READY:
            self.take(message)
        elif self.state is ChildState.LOADING:
            if isinstance(message, LoadFailed):
                self._last_reason = message.reason
            elif isinstance(message, LoadingPhase):
                self._note_phase(message)
            elif isinstance(message, self._ready_type):
                self._move(ChildEvent.READY)
                self.was_hung = False
                self._ready_at = self._heard_at
                self._watch(self._heard_at)
                if self._first is not None:
                    # It may end before `start` resumes: then this is an end like any other.
                    self._first.set_result(message)
                    self._first = None
                else:
                    log.info("the %s is back", self.name)
                    self.back()

    def _note_phase(self, phase: LoadingPhase) -> None:
        if self._progress is not None and self._child is not None:
            measure = mapped_part(self._child.pid, phase.file_bytes)
            self._progress.begin(phase.phase, phase.start, phase.end, measure)

    def _ended(self, reason: str) -> None:
        self.has_crashed = self._child is not None and self._child.has_crashed
        self._child = None
        if self._timer is not None:
            self._timer.cancel()
        if self.state is ChildState.CLOSED:
            return
        if self._first is not None:
            self._move(ChildEvent.FIRST_LOAD_FAILED)
            if not self._first.done():
                self._first.set_exception(LoadError(self._last_reason or reason))
            return
        was_ready = self.state is ChildState.READY
        if was_ready:
            self._settled.clear()
        else:
            self._settled.set()
        loop = asyncio.get_running_loop()
        if was_ready:
            self._last_reason = reason
            self._back_off.note_life(loop.time() - self._ready_at)
        if was_ready and self.caused_end():
            delay = 0.0
        else:
            delay = self._back_off.next_pause()
        self._move(ChildEvent.END)
        log.error("the %s is gone: %s; starting it again in %.1f s",
                  self.name, self._last_reason or reason, delay)  # fmt: skip
        self._timer = loop.call_later(delay, self._restart)
        if was_ready:
            self.down(reason)
        else:
            self.cannot_restart(self._last_reason or reason)

    def _restart(self) -> None:
        self._move(ChildEvent.DELAY_OVER)
        self.restarts += 1
        self._starting = asyncio.get_running_loop().create_task(self._spawn())

    def _watch(self, due: float) -> None:
        """The watchdog: kills a child that owes an answer for too long."""
        loop = asyncio.get_running_loop()
        # While the event loop was blocked it could not receive from the child.
        self._heard_at += max(0.0, loop.time() - due)
        if self.silence > self._hang_seconds:
            self.was_hung = True
            # Until then the child may come back: a process that was stopped (SIGSTOP) continues if
            # it wakes in time.
            self.kill(f"it has not answered for {self._hang_seconds:.0f} s")
            return
        due = loop.time() + self._hang_seconds / 4
        self._timer = loop.call_at(due, self._watch, due)

    def _move(self, event: ChildEvent) -> None:
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise RuntimeError(f"{self.name}: {event} in state {self.state}")
        self.state = state
        child = self._child if state is ChildState.READY else None
        self.send = _lose if child is None else child.send
        if event is ChildEvent.START:
            self._settled.clear()
        elif state in _SETTLED:
            self._settled.set()


def _lose(*pieces: Piece) -> None:
    """Do nothing with a message: there is no child that could take it."""
