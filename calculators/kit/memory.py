"""Memory of processes: garbage collection, memory returned to the system, Linux's accounts."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: The first number: new objects before a young collection. Three requests make CPython's 700.
_THRESHOLDS: Final = (10_000, 20, 100)


def collect_seldom() -> None:
    """Let collections be rare from now on.

    Imports leave little garbage, and make so many objects that collections take a tenth of their
    time.
    """
    # A full collection of half a million objects added 40 to 60 ms to every request in flight
    # (decision 0034).
    gc.set_threshold(*_THRESHOLDS)


#: A value of ``GLIBC_TUNABLES`` for a child whose library allocates and frees in many threads. By
#: default glibc has up to 8 arenas per core: free memory of one serves no other, and what stays in
#: use is spread over all.
FEW_ARENAS: Final = "glibc.malloc.arena_max=2"


def return_free_memory() -> None:
    """Give free pages of the C library's heap back to the system, where it is glibc's.

    It keeps what lies below a block in use, which after large requests is nearly all of it. Takes
    up to tens of milliseconds without the interpreter's lock: for a thread.
    """
    if sys.platform == "linux":
        import ctypes  # here: a server that starts wants the constant alone

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


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
