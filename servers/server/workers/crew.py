"""`Crew`: the supervisor of a server's workers.

It starts and stops the workers, and everything that concerns all of them goes through it: child
processes that they share, states, metrics, and the commands of operators.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from calculators.kit.child_process.back_off import BackOff
from calculators.kit.child_process.child_pool import ChildPool
from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.shared_child import KillShared, Release, Want
from servers.operations.metrics.exposition import MergedText
from servers.operations.process import READY, STOPPING, notify
from servers.server.fronts import ListenError
from servers.server.workers.messages import (
    Action,
    AskWorker,
    BeginWork,
    Loaded,
    Look,
    Outcome,
    Peers,
    Perform,
    State,
    WorkerAsked,
    WorkerFailure,
    from_worker_decoder,
)


class ReservedPorts:
    """Sockets that are bound and do not listen: other servers cannot take the ports."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, scheme: str, hosts: Sequence[str], port: int) -> int:
        """Reserve a port on all hosts, and return it.

        Args:
            scheme: the front that will listen, for errors.
            port: 0 takes a free one.

        Raises:
            ListenError: an address is taken or invalid.
        """
        where = ", ".join(f"{host}:{port}" for host in hosts)
        try:
            for host in hosts:
                found = socket.getaddrinfo(
                    host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                )
                for family, kind, protocol, _, address in found:
                    # Without SO_REUSEPORT first: another server that shares its port is found too.
                    if port:
                        _bound(family, kind, protocol, (address[0], port), shares=False).close()
                    bound = _bound(family, kind, protocol, (address[0], port), shares=True)
                    self._sockets.append(bound)
                    port = bound.getsockname()[1]
        except OSError as error:
            self.close()
            is_name = isinstance(error, socket.gaierror) or not error.errno
            reason = str(error.strerror or error) if is_name else os.strerror(error.errno or 0)
            text = f"cannot listen on {where}: {reason.lower()}"
            raise ListenError(text, scheme) from error
        return port

    def close(self) -> None:
        """Release the ports."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def _bound(
    family: int, kind: int, protocol: int, address: tuple[object, int], *, shares: bool
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            # The kernel spreads connections over the workers: passing accepted sockets on works for
            # asyncio, not for gRPC's library (decision 0071).
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # Otherwise "::" takes the port of IPv4 too, and the second host of the same server
            # fails.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


#: The module of a worker, which is in the layer above.
_MODULE: Final = "servers.cli.worker"
#: Lives in a row that were not good, after which a worker is not started again.
MOST_FAILURES: Final = 10


class MemberState(StrEnum):
    """The state of a worker."""

    LOADING = "loading"
    SERVING = "serving"
    BACKING_OFF = "backing off"
    ENDED = "ended"


class WorkerGone(Exception):
    """The worker has ended before it answered."""


class CrewMember:
    """Starts one worker, and starts it again when it ends.

    Attributes:
        number: from 1.
        status: what the worker says of its own state; None unless it listens.
        metrics: its last text of metrics; "" without one.
        report: the report of its start.
    """

    def __init__(self, number: int, crew: Crew) -> None:
        self.number = number
        self.state = MemberState.LOADING
        self.status: State | None = None
        self.metrics = ""
        self.report = ""
        self._crew = crew
        self._encode = msgspec.msgpack.Encoder().encode
        self._child: ChildProcess | None = None
        self._asked = WorkerAsked()
        self._lives = 0
        self._back_off = BackOff()
        self._serving_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._starting: asyncio.Task[None] | None = None
        self.has_ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        child = self._child
        return child.pid if child is not None and child.is_running else None

    def start(self) -> None:
        """Start the worker's next life."""
        self._set(MemberState.LOADING)
        self._starting = asyncio.create_task(self._spawn(), name=f"start worker {self.number}")

    def send(self, message: msgspec.Struct) -> None:
        """Send a message; it is lost if there is no process."""
        if self._child is not None:
            self._child.send(self._encode(message))

    async def perform(self, action: Action, model: str = "") -> Outcome:
        """Let the worker do an action.

        Raises:
            WorkerGone: it has ended meanwhile.
        """
        return await self._asked.ask(lambda number: self.send(Perform(number, action, model)))

    def stop(self) -> None:
        """Signal the worker to finish its requests; a second signal makes it hurry."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state is MemberState.BACKING_OFF:
            self._set(MemberState.ENDED)
            self.has_ended.set()
            return
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                # By signal, as a server of one process: a worker whose loop is blocked still gets
                # it.
                os.kill(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker."""
        if self._child is not None and self._child.is_running:
            self._child.kill("it did not stop in time")

    # One life -------------------------------------------------------------------------------------

    async def _spawn(self) -> None:
        name = f"worker {self.number}"
        self._child = child = ChildProcess(self._take, self._ended, name, has_log=True)
        self._lives += 1
        try:
            await child.start(_MODULE)
        except OSError as error:
            self._ended(f"it could not be started: {error.strerror}")
            return
        self.send(self._crew.first_message(self.number, self._lives > 1))
        if self._is_stopping:
            self.stop()

    def _take(self, frame: Frame) -> None:
        try:
            message = from_worker_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            assert self._child is not None
            self._child.kill(f"it sent what is not a message: {error}")
            return
        match message:
            case Loaded(report=report):
                self.report = report
                self._serving_since = asyncio.get_running_loop().time()
                if self._lives > 1:
                    _log.info("worker %d is back (process %d)", self.number, self.pid or 0)
                self._set(MemberState.SERVING)
            case State():
                self.status = message
                self._crew.changed(self)
            case Outcome():
                self._asked.answer(message)
            case _:
                self._crew.take(self, message)

    def _ended(self, reason: str) -> None:
        self._asked.fail(WorkerGone(reason))
        since, self._serving_since = self._serving_since, None
        self.status = None
        pid = 0 if self._child is None else self._child.pid
        if self._is_stopping:
            self._set(MemberState.ENDED)
            self.has_ended.set()
            return
        loop = asyncio.get_running_loop()
        if since is not None:
            self._back_off.note_life(loop.time() - since)
        delay = self._back_off.next_pause()
        failures = self._back_off.failures
        is_first = self._lives == 1 and since is None
        if is_first or failures >= MOST_FAILURES:
            what = "could not start" if is_first else f"has ended {failures} times in a row"
            _log.error("worker %d %s: %s; it is not started again", self.number, what, reason)
            self._set(MemberState.ENDED)
            self.has_ended.set()
            return
        _log.error("worker %d (process %d) is gone: %s; starting it again in %.1f s",
                   self.number, pid, reason, delay)  # fmt: skip
        self._set(MemberState.BACKING_OFF)
        self._timer = loop.call_later(delay, self.start)

    def _set(self, state: MemberState) -> None:
        self.state = state
        self._crew.changed(self)


_log: Final = logging.getLogger(__name__)

#: Seconds that a worker has to send its metrics; after that the supervisor uses its last ones.
METRICS_SECONDS: Final = 5.0
#: Seconds beyond the drain in which a worker ends by itself.
_END_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class CrewSettings:
    """The settings of the supervisor.

    Attributes:
        words: the words of the command line, for each worker.
        workers: the number of workers.
        http_port, grpc_port: the reserved ports; 0: the server does not listen so.
        poll_seconds: interval at which all workers look for changed files; 0: never.
        drain_seconds: how long requests in flight may continue after a signal to stop.
    """

    words: Sequence[str]
    workers: int
    http_port: int
    grpc_port: int
    poll_seconds: float
    drain_seconds: float


class Crew:
    """The workers of one server, on the running event loop."""

    def __init__(self, settings: CrewSettings, on_loaded: Callable[[str], None]) -> None:
        """``on_loaded`` is called once, with the report of a start, when all workers serve."""
        self._settings = settings
        self._on_loaded = on_loaded
        self._pool = ChildPool()
        self._members = [CrewMember(number, self) for number in range(1, settings.workers + 1)]
        self._unloaded: set[str] = set()
        self._past = MergedText()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._signals = 0
        self._is_up = False
        #: True when no worker is left, or the start has failed.
        self._has_failed = False

    async def run(self) -> int:
        """Serve until a signal to stop, and return the exit code.

        A second signal cuts off requests in flight, a third ends everything.
        """
        loop = asyncio.get_running_loop()
        previous = {
            number: signal.signal(number, lambda n, _: self._on_signal(loop, n))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        # ``nohup`` ignores it, and then it must not mean a reload.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            previous[signal.SIGHUP] = signal.signal(
                signal.SIGHUP, lambda _n, _f: loop.call_soon_threadsafe(self._hang_up)
            )
        looking = asyncio.create_task(self._look_for_changes())
        try:
            for member in self._members:
                member.start()
            await self._stop.wait()
            notify(STOPPING)
            looking.cancel()
            await self._stop_members()
            await self._pool.close()
        finally:
            looking.cancel()
            for number, handler in previous.items():
                signal.signal(number, handler)
        _log.info("stopped")
        return 1 if self._has_failed else 0

    # Signals --------------------------------------------------------------------------------------

    def _on_signal(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        loop.call_soon_threadsafe(self._signalled, number)

    def _signalled(self, number: int) -> None:
        self._signals += 1
        if self._signals == 1:
            self._stop.set()
            return
        for member in self._members:
            if self._signals == 2:
                member.stop()
            else:
                member.kill()

    def _hang_up(self) -> None:
        _log.info("SIGHUP: reading the configuration again")
        self._spawn(self._reload_for_signal(), "reload for SIGHUP")

    async def _reload_for_signal(self) -> None:
        outcome = await self._perform(Action.RELOAD, "", None)
        if outcome.failure is not None:
            _log.error("%s", outcome.failure.message)
        elif not outcome.has_changed:
            _log.info("nothing has changed")

    async def _stop_members(self) -> None:
        _log.info("stopping %d workers", len(self._members))
        for member in self._members:
            member.stop()
        ends = [asyncio.create_task(each.has_ended.wait()) for each in self._members]
        seconds = self._settings.drain_seconds + _END_SECONDS
        _, late = await asyncio.wait(ends, timeout=seconds)
        if late:
            self._has_failed = True
            _log.error("%d workers have not ended after %g s: killing them", len(late), seconds)
            for member in self._members:
                member.kill()
            await asyncio.wait(late)

    # Members --------------------------------------------------------------------------------------

    def first_message(self, number: int, replaces: bool) -> BeginWork:
        """Return the first message to a worker; ``replaces``: its number had one before."""
        settings = self._settings
        return BeginWork(
            list(settings.words),
            number,
            settings.workers,
            settings.http_port,
            settings.grpc_port,
            replaces and self._is_up,
            sorted(self._unloaded),
        )

    def changed(self, member: CrewMember) -> None:
        """Note that a member's state or status has changed."""
        if member.state in (MemberState.BACKING_OFF, MemberState.ENDED):
            self._pool.forget(member.number)
            self._past.add(member.metrics, is_past=True)
            member.metrics = ""
        if member.state is MemberState.ENDED and not self._stop.is_set():
            is_last = all(each.state is MemberState.ENDED for each in self._members)
            if is_last or not self._is_up:
                self._has_failed = True
                self._stop.set()
        for each in self._members:
            others = [other.status for other in self._members if other is not each]
            each.send(Peers([status for status in others if status is not None]))
        if not self._is_up and all(each.state is MemberState.SERVING for each in self._members):
            self._is_up = True
            notify(READY)
            self._on_loaded(self._members[0].report)

    def take(self, member: CrewMember, message: Any) -> None:
        """Take a message that is not about the member's own state."""
        match message:
            case Want() | Release() | KillShared():
                self._pool.take(member.number, message, member.send)
            case AskWorker():
                self._spawn(self._answer(member, message), f"{message.action} of all workers")
            case _:
                raise AssertionError(message)

    def _spawn(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_for_changes(self) -> None:
        while self._settings.poll_seconds:
            await asyncio.sleep(self._settings.poll_seconds)
            for member in self._members:
                member.send(Look())

    # All workers ----------------------------------------------------------------------------------

    async def _answer(self, member: CrewMember, ask: AskWorker) -> None:
        if ask.action is Action.METRICS:
            outcome = Outcome(ask.number, text=await self._metrics())
        else:
            done = await self._perform(ask.action, ask.model, member)
            outcome = Outcome(ask.number, done.has_changed, done.failure)
        member.send(outcome)

    async def _perform(self, action: Action, model: str, asker: CrewMember | None) -> Outcome:
        """Let all workers do an action; the failure is the asker's own, or the first one."""
        if action is Action.UNLOAD:
            self._unloaded.add(model)
        elif action is Action.LOAD:
            self._unloaded.discard(model)
        members = sorted(self._running(), key=lambda each: each is not asker)
        outcomes = await self._outcomes(members, action, model)
        # So that the next request to any worker gets an answer about the new state.
        await self._outcomes(members, Action.SETTLE, "")
        failures = [each.failure for each in outcomes if each.failure is not None]
        failure: WorkerFailure | None = failures[0] if failures else None
        if action is Action.UNLOAD and failure is not None:
            self._unloaded.discard(model)
        return Outcome(0, any(each.has_changed for each in outcomes), failure)

    async def _outcomes(
        self, members: Sequence[CrewMember], action: Action, model: str
    ) -> list[Outcome]:
        work = (each.perform(action, model) for each in members)
        found = await asyncio.gather(*work, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, WorkerGone):
                raise each
        return [each for each in found if isinstance(each, Outcome)]

    async def _metrics(self) -> str:
        """Return the metrics of all workers as one text, the counts of ended ones included."""
        members = self._running()
        await asyncio.gather(*(self._read_metrics(each) for each in members))
        merged = MergedText()
        for each in members:
            merged.add(each.metrics)
        merged.add(self._past.plain(), is_past=True)
        return merged.plain()

    async def _read_metrics(self, member: CrewMember) -> None:
        try:
            async with asyncio.timeout(METRICS_SECONDS):
                member.metrics = (await member.perform(Action.METRICS)).text
        except (TimeoutError, WorkerGone):
            _log.warning("worker %d does not answer: its last metrics are shown", member.number)

    def _running(self) -> list[CrewMember]:
        return [each for each in self._members if each.status is not None]


def run_crew(settings: CrewSettings, on_loaded: Callable[[str], None]) -> int:
    """Supervise workers until a signal to stop, and return the exit code. In the main thread.

    Raises:
        OSError: there is no folder for the sockets of shared processes.
    """

    async def run() -> int:
        return await Crew(settings, on_loaded).run()

    return asyncio.run(run())
