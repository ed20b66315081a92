"""Resident memory of processes, on systems with ``/proc``."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

#: Skips a test where `resident_bytes` has nothing to read.
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="only /proc shows how much memory is used"
)


def resident_bytes(process: int | str = "self") -> int:
    """Return the resident memory of a process in bytes.

    Raises:
        OSError: there is no such process.
    """
    fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize()
