"""Processes of this machine, from ``/proc``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_FORKING = "tests.servers.cli.fork_server"


def children_of(parent: int) -> list[int]:
    """Return the process ids of all children, whichever thread of the parent started them.

    Processes that only fork for a server of tests are none (`tests.servers.cli.forked_children`).
    """
    found: list[int] = []
    for child in _all_children_of(parent):
        if module_of(child) == _FORKING:
            found += _programs_of(child)
        else:
            found.append(child)
    return found


def _programs_of(forking: int) -> Iterator[int]:
    for waiting in _all_children_of(forking):
        # It ends with its program, perhaps meanwhile.
        with contextlib.suppress(FileNotFoundError):
            yield from _all_children_of(waiting)


def _all_children_of(parent: int) -> list[int]:
    tasks = (_PROC / str(parent) / "task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


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
