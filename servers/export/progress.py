"""Progress of an export on standard error, from what the exporter prints; its last lines."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final, TextIO

#: Seconds between two drawings on a terminal, and between two lines elsewhere.
_DRAW_PERIOD: Final = 0.2
_LINE_PERIOD: Final = 10.0
#: Lines that an error shows, and the bytes of one of them.
_LAST_LINES: Final = 8
_MAX_LINE: Final = 400

_LINE_ENDS: Final = re.compile(rb"[\r\n]+")
#: Colours and cursor movements, and other characters that a terminal would obey.
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TRACEBACK: Final = "Traceback (most recent call last):"


class ExportOutput:
    """The output of an exporter: written to a log, its last line shown, its last lines kept."""

    def __init__(self, title: str, log: Path, stream: TextIO | None = None) -> None:
        """``log``: a file for the whole output, created here."""
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._log = log.open("wb")
        self._rest = b""
        self._last = ""
        self._kept: deque[str] = deque(maxlen=_LAST_LINES)
        self._is_in_traceback = False
        self._error: str | None = None
        self._began = time.monotonic()
        self._drawn = 0.0

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The error's first line and the last lines, without stacks and bars of progress."""
        is_shown = self._error is None or self._error in self._kept
        return tuple(self._kept) if is_shown else (str(self._error), *self._kept)

    def receive(self, data: bytes) -> None:
        """Take output as it arrives, in any pieces."""
        self._log.write(data)
        self._log.flush()
        *lines, self._rest = _LINE_ENDS.split(self._rest + data)
        for line in lines:
            self._take(line)
        self._rest = self._rest[-_MAX_LINE:]
        self.draw()

    def draw(self) -> None:
        """Show the state if enough time has passed."""
        now = time.monotonic()
        if now - self._drawn < (_DRAW_PERIOD if self._is_terminal else _LINE_PERIOD):
            return
        self._drawn = now
        minutes, seconds = divmod(int(now - self._began), 60)
        text = f"{self._title}: {minutes}:{seconds:02}"
        if self._last:
            text += f", {self._last}"
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Take the rest, end the line on a terminal, and close the log."""
        self._take(self._rest)
        self._rest = b""
        self._log.close()
        if self._is_terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _take(self, line: bytes) -> None:
        text = _CONTROL.sub("", line.decode("utf-8", "replace")).rstrip()
        if not text:
            return
        self._last = text.strip()[:_MAX_LINE]
        if text.startswith(_TRACEBACK):
            self._is_in_traceback = True
        elif not (self._is_in_traceback and text[0].isspace()):
            if self._is_in_traceback:
                # The first line without an indent is the error itself.
                self._is_in_traceback = False
                self._error = text[:_MAX_LINE]
            if "%|" not in text:
                self._kept.append(text[:_MAX_LINE])
