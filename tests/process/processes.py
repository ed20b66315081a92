"""Processes of this machine, from ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def children_of(parent: int) -> list[int]:
    """Return the process ids of all children, whichever thread of the parent started them."""
    found: list[int] = []
    for task in (_PROC / str(parent) / "task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def module_of(pid: int) -> str:
    """Return the module that a process runs with ``python -m``; "" if none."""
    words = (_PROC / str(pid) / "cmdline").read_text().split("\0")
    return words[words.index("-m") + 1] if "-m" in words else ""


def is_running(pid: int) -> bool:
    """Return True if a process of this id exists and is not a zombie."""
    try:
        return _stat(pid)[0] not in ("Z", "X")
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process so far, in seconds."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name, the state first."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
