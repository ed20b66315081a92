"""`BatchSettings`: the directory and the limits of files and batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The directory and the limits of files and batches.

    Attributes:
        directory: holds the store; made if it is missing.
        width: requests of batches that run at a time.
        max_requests: lines of one batch.
        max_file_bytes: the largest file.
        max_line_bytes: the longest line of an input file; a longer one gets an error.
        worker_command: starts the process that answers the requests of batches. It works in
            ``directory`` until there is nothing to do, and ends when its standard input does.
        is_idle: the worker has the lowest priority.
        is_shared: several servers on one port use the directory; one of them starts the worker.
    """

    directory: Path
    width: int = 32
    max_requests: int = 1_000_000
    max_file_bytes: int = 16 << 30
    max_line_bytes: int = 8 << 20
    worker_command: tuple[str, ...] = ()
    is_idle: bool = True
    is_shared: bool = False
