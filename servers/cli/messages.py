"""Messages on standard error, and the error that ends a command."""

from __future__ import annotations

import sys
from collections.abc import Callable


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
