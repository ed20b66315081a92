"""`ProgressLine`: progress of a command on standard error."""

from __future__ import annotations

import sys
import time
from typing import Final

#: Seconds between two lines where standard error is no terminal.
_PERIOD: Final = 10.0


class ProgressLine:
    """One line on a terminal, written over again; a line now and then elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = False
        self._next = time.monotonic() + _PERIOD

    def show(self, text: str, *, is_due: bool = False) -> None:
        """Show the state of the work. ``is_due``: also where the next line could wait."""
        if self._is_terminal:
            self._is_shown = True
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif is_due or time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line of the terminal."""
        if self._is_shown:
            print(file=sys.stderr)
            self._is_shown = False
