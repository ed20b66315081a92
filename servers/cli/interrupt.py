"""Ctrl-C during a run: the first cancels the run, the second ends the process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

#: The exit code of a command that Ctrl-C ended.
INTERRUPTED: Final = 130


class Interrupt:
    """A handler of SIGINT for a main thread that runs a graph.

    KeyboardInterrupt could interrupt a calculator or the engine anywhere. So the graph is cancelled
    instead, which lets running calls return. The exception is raised only while the main thread
    waits for a line of input.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._is_reading = False
        self.was_called = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[Interrupt]:
        # Imported here: with it comes the runtime, which only a command that runs a graph needs.
        from graphrt_base.interrupts import without_interrupts

        previous = signal.signal(signal.SIGINT, self._on_signal)
        try:
            with without_interrupts():
                yield self
        finally:
            signal.signal(signal.SIGINT, previous)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt at once inside this context."""
        self._is_reading = True
        try:
            self.check()
            yield
        finally:
            self._is_reading = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.was_called:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.was_called:
            os._exit(INTERRUPTED)
        self.was_called = True
        if self._is_reading:
            raise KeyboardInterrupt
        # os.write, because the signal may have interrupted print.
        os.write(2, b"interrupted: ending the run; Ctrl-C again stops at once\n")
        # In a thread, because this one may hold the graph's lock.
        threading.Thread(target=self._cancel, daemon=True).start()
