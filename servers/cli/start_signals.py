"""Signals during the start of `graphrt serve`, before the server has its own handlers.

Imports nothing slow: it is the first act of the command.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


def take_signals() -> None:
    """Let SIGHUP do nothing, and SIGTERM end the command with success.

    A configuration that is still being read needs no second reading. SIGHUP that is ignored, as
    under ``nohup``, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _do_nothing)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # an exception could end in the code that it interrupts, such as an author's import


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing; unlike SIG_IGN, child processes do not inherit it."""
