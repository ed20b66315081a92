"""The time of files and batches.

Time limits of files and batches outlive processes and restarts of the machine, so they are compared
with the wall clock. No other time limits are.

A wall clock may jump: somebody sets it, or a machine starts with a wrong one until the network has
told it the time. What expires by a jump is lost for good, so a jump counts only when it has lasted
(`SteadyClock`). A process that starts in the meantime is told what the one that started it believes
(`clock_of_child`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Final

#: Seconds by which clocks may drift apart without a jump: a correction in small steps.
_DRIFT: Final = 5.0
#: Seconds after which the clock that jumped is believed.
_SETTLING: Final = 600.0
#: The variable with the offset that a parent believes.
_INHERITED: Final = "GRAPHRT_CLOCK_OFFSET"


class SteadyClock:
    """The wall clock without jumps that last less than `_SETTLING`. Safe in any thread."""

    def __init__(self, offset: float | None = None) -> None:
        """``offset``: wall clock minus steady clock, as another process believes it."""
        self._lock = threading.Lock()
        #: Wall clock minus steady clock, as it is believed. guarded by: self._lock
        self._offset = time.time() - _steady() if offset is None else offset
        #: The same after a jump, and when that was first seen.
        self._jumped: tuple[float, float] | None = None

    def seconds(self) -> float:
        """Return Unix time."""
        with self._lock:
            steady = _steady()
            offset = time.time() - steady
            if abs(offset - self._offset) <= _DRIFT:
                self._offset, self._jumped = offset, None
            elif self._jumped is None or abs(offset - self._jumped[0]) > _DRIFT:
                self._jumped = offset, steady
            elif steady - self._jumped[1] >= _SETTLING:
                self._offset, self._jumped = offset, None
            return self._offset + steady

    def offset(self) -> float:
        """Return the wall clock minus the steady clock, as it is believed."""
        self.seconds()
        with self._lock:
            return self._offset


def _steady() -> float:
    """Return seconds that nobody sets; they go on while the machine sleeps, where it tells them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _inherited() -> float | None:
    try:
        return float(os.environ[_INHERITED])
    except (KeyError, ValueError):
        return None


_CLOCK: Final = SteadyClock(_inherited())


def clock_of_child() -> Mapping[str, str]:
    """Return variables for the environment of a process that is started now."""
    return {_INHERITED: repr(_CLOCK.offset())}


def unix_seconds() -> int:
    """Return Unix time in whole seconds, as OpenAI's objects have it."""
    return int(_CLOCK.seconds())
