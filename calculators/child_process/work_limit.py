"""`WorkLimit`: how long a child may be at one piece of work, by its own processor time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

#: What a child computes with at most, in threads: so fast can its processor time pass.
_THREADS: Final = 2.0
#: Between two looks at a child that is near its limit, in seconds.
_SHORTEST_PAUSE: Final = 0.02


def cpu_seconds(pid: int) -> float | None:
    """Processor time (user and system) that a process has used; None where that is not known.

    The process must be a child that has not been waited for: else the number may be another's.
    """
    if sys.platform != "linux":
        return None
    try:
        # The clock of a process, as clock_getcpuclockid(3) makes it of a process id on Linux.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


class Overrun(Enum):
    """Which limit was passed.

    Attributes:
        CPU: the child computed for too long: what it was asked is too much.
        WALL: it was stopped, starved, or it hangs: no fault of the client.
    """

    CPU = "cpu"
    WALL = "wall"


class WorkLimit:
    """Watches one piece of work of a child, from now until `stop`. On the running event loop.

    Only processor time says something about the work: a child that is stopped for a moment, or
    gets no processor, makes the wall time long. Where a system does not tell processor time, wall
    time takes its place.
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
        self._timer: asyncio.TimerHandle | None = None
        self._watch()

    @property
    def used(self) -> float:
        """Processor seconds since the beginning; of a child that is gone, when last looked at."""
        if self._cpu_began is None:
            return self._loop.time() - self._began
        now = cpu_seconds(self._pid)
        if now is not None:
            self._last_used = now - self._cpu_began
        return self._last_used

    def stop(self) -> float:
        """The work is done; `used`. May be called again."""
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
