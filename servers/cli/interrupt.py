"""Ctrl-C during a run: the first ends the run in good order, the second ends the process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_STATUS = 130


class Interrupt:
    """A handler of SIGINT for a main thread that is busy with a graph.

    An exception out of the blue would hit a calculator, or the engine, anywhere; so the graph is
    cancelled instead, which lets running calls return. Only where the main thread waits for a line
    of input is the exception raised.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._is_reading = False
        self.was_called = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[Interrupt]:
        previous = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, previous)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, Ctrl-C raises KeyboardInterrupt at once."""
        self._is_reading = True
        try:
            self.check()
            yield
        finally:
            self._is_reading = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed since."""
        if self.was_called:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.was_called:
            os._exit(_STATUS)
        self.was_called = True
        if self._is_reading:
            raise KeyboardInterrupt
        # os.write, because print may be what the signal interrupted.
        os.write(2, b"interrupted: ending the run; Ctrl-C again stops at once\n")
        # In a thread, because this one may hold the graph's lock.
        threading.Thread(target=self._cancel, daemon=True).start()
