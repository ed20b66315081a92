"""`WorkLimit`: a limit of one piece of a child's work, by the child's processor time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

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
