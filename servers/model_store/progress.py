"""Progress of a download on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, TextIO

#: Seconds between two drawings of a bar, and between two lines where there is no terminal.
_BAR_PERIOD: Final = 0.2
_LINE_PERIOD: Final = 10.0
#: Speed is that of the last seconds.
_SPEED_WINDOW: Final = 5.0
_WIDTH: Final = 24

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class DownloadProgress:
    """Draws the share of bytes that have arrived, their speed and the remaining time.

    A context manager, which draws until it is left. `add` may be called from any thread.
    """

    def __init__(self, title: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._title = title
        self._total = total
        self._done = done
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._samples = [(time.monotonic(), done)]
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_end, daemon=True)
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count bytes that arrived; a negative number takes some back."""
        with self._lock:
            self._done += count

    def __enter__(self) -> DownloadProgress:
        self._draw()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        self._thread.join()
        self._draw()
        if self._is_terminal:
            print(file=self._stream, flush=True)

    def _draw_until_end(self) -> None:
        while not self._has_ended.wait(_BAR_PERIOD if self._is_terminal else _LINE_PERIOD):
            self._draw()

    def _draw(self) -> None:
        text = self._text()
        if self._is_terminal:
            print(f"\r{text}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)

    def _text(self) -> str:
        with self._lock:
            done, total = self._done, self._total
        share = min(1.0, done / total) if total else 1.0
        parts = [f"{share:4.0%}", f"{size_text(done)} of {size_text(total)}"]
        speed = self._speed(done)
        if speed > 0 and done < total:
            parts += [f"{size_text(speed)}/s", f"{_duration_text((total - done) / speed)} left"]
        bar = ""
        if self._is_terminal:
            filled = round(share * _WIDTH)
            bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
        return f"{self._title}: {bar}{', '.join(parts)}"

    def _speed(self, done: int) -> float:
        """Return the bytes per second over the last seconds."""
        now = time.monotonic()
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] < now - _SPEED_WINDOW:
            del self._samples[0]
        since, before = self._samples[0]
        return (done - before) / (now - since) if now > since else 0.0


def size_text(size: float) -> str:
    """Format a number of bytes: ``98.4 MB``."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit has no bound")


def _duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
