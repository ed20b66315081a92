"""The lowest priority of processors that Linux has, for the process that answers batches."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_NICE: Final = 19


def give_lowest_priority(pid: int) -> None:
    """Let a child process, and all that it starts later, run only when nothing else wants a core.

    Linux keeps priorities by thread; threads that exist already are changed too.

    `SCHED_IDLE` gives a core up as soon as another thread wakes. With niceness alone that thread
    may wait for the end of a slice of some milliseconds, at each hop between processes. Niceness
    is for the disk, and for systems without the policy.
    """
    folder = Path(f"/proc/{pid}/task")
    threads = [int(path.name) for path in folder.iterdir()] if folder.is_dir() else [pid]
    for thread in threads:
        # A thread may have ended, and a sandbox may refuse the policy.
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, _NICE)
        if hasattr(os, "SCHED_IDLE"):
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
