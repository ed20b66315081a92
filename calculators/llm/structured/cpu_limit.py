"""A limit of processor time for work in Python, in the main thread of a child process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class CutOff(BaseException):
    """The work took too long. No Exception: what is cut off must not take it for one of its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of ``work``, which has so many seconds of this process's time.

    Raises:
        CutOff: it took longer. It is stopped between two of its instructions.
    """
    is_running = True

    def cut_off(number: int, frame: FrameType | None) -> None:
        # The signal may come when the work has just ended.
        if is_running:
            raise CutOff

    before = signal.signal(signal.SIGPROF, cut_off)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            return work()
        finally:
            is_running = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    finally:
        signal.signal(signal.SIGPROF, before)
