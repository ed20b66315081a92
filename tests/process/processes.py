"""Processes of this machine as ``/proc`` tells of them."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def children_of(parent: int) -> list[int]:
    """The process ids of all children, of whichever thread of the parent."""
    found: list[int] = []
    for task in (_PROC / str(parent) / "task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def module_of(pid: int) -> str:
    """The module that a process runs with ``python -m``; "" for another one."""
    words = (_PROC / str(pid) / "cmdline").read_text().split("\0")
    return words[words.index("-m") + 1] if "-m" in words else ""


def is_running(pid: int) -> bool:
    """Is there a process of this id that does something still (a zombie does not)?"""
    try:
        return _stat(pid)[0] not in ("Z", "X")
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the name, the state first."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
