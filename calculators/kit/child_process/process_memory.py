"""The memory of a process, and how much of its files it has mapped, from Linux's accounts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def mapped_part(pid: int, total: int) -> Callable[[], float] | None:
    """Return a function that measures which part of ``total`` bytes a process has mapped since.

    The libraries map weights and touch each page once, so the pages of files in a process's memory
    grow with the weights that it has read. None where the system does not report them.
    """
    first = _mapped_bytes(pid)
    if first is None or total <= 0:
        return None

    def measure() -> float:
        now = _mapped_bytes(pid)
        return 0.0 if now is None else (now - first) / total

    return measure


def resident_bytes(pid: int) -> int | None:
    """Return the memory that a process uses; None if unknown or the process is gone."""
    return _bytes(pid, 1)


def _mapped_bytes(pid: int) -> int | None:
    """Return the bytes of files in a process's memory; None if unknown or the process is gone."""
    return _bytes(pid, 2)


def _bytes(pid: int, field: int) -> int | None:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[field]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
