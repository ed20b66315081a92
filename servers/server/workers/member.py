"""`Member`: one worker as the supervisor sees it, through one life after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

import msgspec

from calculators.kit.child_process.back_off import BackOff
from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from servers.server.workers.asked import Asked
from servers.server.workers.messages import (
    Action,
    Begin,
    Loaded,
    Outcome,
    Perform,
    State,
    from_worker_decoder,
)

_log: Final = logging.getLogger(__name__)

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


class Member:
    """Starts one worker, and starts it again when it ends.

    Attributes:
        number: from 1.
        status: what the worker says of its own state; None unless it listens.
        metrics: its last text of metrics; "" without one.
        report: the report of its start.
    """

    def __init__(
        self,
        number: int,
        begin: Callable[[int, bool], Begin],
        on_message: Callable[[Member, Any], None],
        on_change: Callable[[Member], None],
    ) -> None:
        """
        Args:
            begin: makes the first message, from the number and whether this is a replacement.
            on_message: called with messages that are not about this member's state.
            on_change: called when ``state`` or ``status`` has changed.
        """
        self.number = number
        self.state = MemberState.LOADING
        self.status: State | None = None
        self.metrics = ""
        self.report = ""
        self._begin = begin
        self._on_message = on_message
        self._on_change = on_change
        self._encode = msgspec.msgpack.Encoder().encode
        self._child: ChildProcess | None = None
        self._asked = Asked()
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
        self.send(self._begin(self.number, self._lives > 1))
        if self._is_stopping:
            self.stop()

    def _take(self, frame: Frame) -> None:
        try:
            message = from_worker_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            assert self._child is not None
            self._child.kill(f"it sent what is no message: {error}")
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
                self._on_change(self)
            case Outcome():
                self._asked.answer(message)
            case _:
                self._on_message(self, message)

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
        self._on_change(self)
