"""A limit of processor time for work in Python, in the main thread of a child process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

#: Shortest setting of the timer, in seconds: about the resolution of systems.
_SHORTEST: Final = 0.001


class CutOff(BaseException):
    """The work took too long. A BaseException, so that the work does not handle it as its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of ``work``, limited to ``seconds`` of this thread's processor time.

    The time of other threads does not count.

    Raises:
        CutOff: the work took longer, and was stopped between two of its instructions.
    """
    is_running = True
    end = time.thread_time() + seconds

    def cut_off(number: int, frame: FrameType | None) -> None:
        if not is_running:
            return  # the work ended when the signal came
        left = end - time.thread_time()
        if left <= 0:
            raise CutOff
        # The timer counts the time of other threads too.
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
