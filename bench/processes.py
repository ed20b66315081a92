"""Linux processes as ``/proc`` accounts for them: CPU time, memory, children."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process so far, in seconds."""
    # The third field follows the name, which is in parentheses and may contain anything.
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def involuntary_switches(pid: int) -> int:
    """Return how often a thread of a process has lost its processor while it could have gone on."""
    found = 0
    for task in (_PROC / str(pid) / "task").iterdir():
        for line in (task / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("nonvoluntary_ctxt_switches:"):
                found += int(line.split()[1])
    return found


def resident_bytes(pid: int) -> int:
    pages = (_PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had; 0 if it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = [line for line in lines.splitlines() if line.startswith("VmHWM:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def proportional_bytes(pid: int) -> int:
    """Return a process's memory, where a page of several processes counts in parts (PSS)."""
    for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid}: the kernel does not say")


def children(pid: int) -> dict[int, list[str]]:
    """Return the arguments of a process's children, by process id."""
    ids = (_PROC / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
    return {int(child): _arguments(int(child)) for child in ids.split()}


def _arguments(pid: int) -> list[str]:
    data = (_PROC / str(pid) / "cmdline").read_bytes()
    return [part.decode(errors="replace") for part in data.split(b"\0")]
