"""Locks of a store: one process serves a directory, and one answers its batches."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.batches.errors import StoreError, storage_errors


class StoreLock:
    """A lock that ends with the process that holds it, however the process ends."""

    def __init__(self, path: Path, *, waits: bool = False) -> None:
        """Take the lock.

        ``waits``: wait while another process holds it; otherwise that is an error.

        Raises:
            StoreError: another process holds it, or the file cannot be made.
        """
        with storage_errors():
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise StoreError("another process uses this directory of batches") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        os.close(self._file)
