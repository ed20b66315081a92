"""`LoadBar`: a line at the bottom of a terminal that shows what is being loaded."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any, Final, TextIO

from servers.serving.loading import Loading

_WIDTH: Final = 24
_CLEAR: Final = "\r\x1b[K"


class LoadBar:
    """Draws a bar below the log; the log must be written to `log_stream`.

    With several graphs and models it shows the one that is furthest behind.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._shown = ""
        self.log_stream = _LogStream(self, terminal)

    def show(self, loading: Sequence[Loading]) -> None:
        """Draw what is being loaded; the bar is erased if nothing is."""
        text = self._text(loading) if loading else ""
        if text != self._shown:
            self._shown = text
            self._terminal.write(_CLEAR + text)
            self._terminal.flush()

    def print_above(self, text: str) -> int:
        """Write lines of the log above the bar."""
        written = self._terminal.write(f"{_CLEAR}{text}{self._shown}" if self._shown else text)
        self._terminal.flush()
        return written

    def _text(self, loading: Sequence[Loading]) -> str:
        slowest = min(loading, key=lambda each: each.percent)
        percent = slowest.percent
        filled = round(percent / 100 * _WIDTH)
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
        more = f" and {len(loading) - 1} more" if len(loading) > 1 else ""
        text = (
            f"{bar} {percent:2d}% {_printable(slowest.name)}{more}: {slowest.progress.phase}, "
            f"{slowest.seconds:.0f} s"
        )
        # A line that wraps could not be erased.
        return text[: shutil.get_terminal_size().columns - 1]


class _LogStream:
    """The stream of a log handler whose terminal has a bar."""

    def __init__(self, bar: LoadBar, terminal: TextIO) -> None:
        self._bar = bar
        self._terminal = terminal

    def write(self, text: str) -> int:
        return self._bar.print_above(text)

    def flush(self) -> None:
        self._terminal.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


def _printable(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name)
