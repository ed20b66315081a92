"""Messages on standard error, and the error that ends a command."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

#: Seconds between two lines where standard error is not a terminal.
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


class JsonLines:
    """Writes objects to a binary stream, one per line, or pieces of text; flushed.

    Attributes:
        is_broken: the reader has gone; later lines are dropped.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_broken = False

    def write(self, fields: dict[str, object] | None) -> None:
        """Write one line, null for None, as UTF-8. Lone surrogates are escaped."""
        try:
            line = json.dumps(fields, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            line = json.dumps(fields).encode()
        self._send(line + b"\n")

    def write_text(self, text: str) -> None:
        """Write a piece of text as UTF-8, as it is."""
        self._send(text.encode(errors="replace"))

    def _send(self, data: bytes) -> None:
        if self.is_broken:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self.is_broken = True


@contextlib.contextmanager
def json_lines_output() -> Iterator[JsonLines]:
    """Reserve standard output for JSON lines: print() writes to standard error inside.

    Raises:
        BrokenPipeError: at the end, if the reader has gone.
    """
    output = JsonLines(sys.stdout.buffer)
    with contextlib.redirect_stdout(sys.stderr):
        yield output
    if output.is_broken:
        raise BrokenPipeError


class CommandFailed(Exception):
    """A command has failed. ``hint`` says what would help; ``status`` is the exit code."""

    def __init__(self, message: str, *, hint: str | None = None, status: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


def print_error(message: str, hint: str | None = None) -> None:
    """Print ``error: message``, and the hint on a line of its own."""
    _print("error", message, hint)


def print_warning(message: str, hint: str | None = None) -> None:
    """Print ``warning: message`` and the hint, or log them if `warn_by` has set a logger."""
    if _warnings.log is None:
        _print("warning", message, hint)
    else:
        _warnings.log("%s", message if hint is None else f"{message}; {hint}")


def warn_by(log: Callable[[str, str], None] | None) -> None:
    """Send warnings to this function of a logger; None: to standard error."""
    _warnings.log = log


class _Warnings:
    log: Callable[[str, str], None] | None = None


_warnings = _Warnings()


def _print(kind: str, message: str, hint: str | None) -> None:
    lines = [f"{kind}: {message}"]
    if hint:
        lines.append(f"hint: {hint}")
    print("\n".join(lines), file=sys.stderr, flush=True)
