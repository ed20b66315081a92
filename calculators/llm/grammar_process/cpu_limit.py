"""A limit of processor time for work in Python, in the main thread of a child process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

#: Of the timer, in seconds: about as fine as systems count.
_SHORTEST: Final = 0.001


class CutOff(BaseException):
    """The work took too long. No Exception: what is cut off must not take it for one of its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of ``work``, which has so many seconds of this thread's processor time.

    Threads of libraries may be busy beside it.

    Raises:
        CutOff: it took longer. It is stopped between two of its instructions.
    """
    is_running = True
    end = time.thread_time() + seconds

    def cut_off(number: int, frame: FrameType | None) -> None:
        if not is_running:
            return  # the work ended when the signal came
        left = end - time.thread_time()
        if left <= 0:
            raise CutOff
        # The timer counts other threads too.
        signal.setitimer(signal.ITIMER_PROF, max(left, _SHORTEST))

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
