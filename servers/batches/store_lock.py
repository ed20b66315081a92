"""Locks of a store: one process serves a directory, and one answers its batches."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from servers.batches.errors import StoreError, storage_errors

#: Seconds that a process waits for another one to end, and between two tries.
_WAITS: Final = 30.0
_PAUSE: Final = 0.05


class StoreLock:
    """A lock that ends with the process that holds it, however the process ends."""

    def __init__(self, path: Path, *, waits: bool = False) -> None:
        """Take the lock.

        ``waits``: wait half a minute while another process holds it; otherwise that is an error.

        Raises:
            StoreError: another process holds it, or the file cannot be made.
        """
        with storage_errors():
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(path, flags, 0o600)
        left = _WAITS if waits else 0.0
        while not self._is_taken():
            if left <= 0:
                os.close(self._file)
                raise StoreError("another process uses this directory of batches")
            time.sleep(_PAUSE)
            left -= _PAUSE

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

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
