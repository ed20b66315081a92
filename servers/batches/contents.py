"""The contents of files on the disk: opened, put in place and removed.

Anything may have happened to the directory between two starts: a backup restored in part, a
cleaner of temporary files, a disk that lost a block. What is wrong with one content is an error of
that content, and opening it never waits.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from graphrt_base.regular_file import DescriptorsExhaustedError, open_regular_file
from servers.batches.objects import ContentError, StoreError, storage_errors

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


_log: Final = logging.getLogger(__name__)

_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


def open_content(path: Path, size: int | None) -> BinaryIO:
    """Open the content of a file for reading.

    ``size``: the bytes that were written; None: unknown.

    Raises:
        ContentError: it is missing, no regular file, not readable, or has another size.
        StoreError: no file can be opened now.
    """
    try:
        file = open_regular_file(path)
    except DescriptorsExhaustedError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise content_error(path, error) from error
    found = os.fstat(file.fileno()).st_size
    if size is not None and found != size:
        file.close()
        raise ContentError(f"{path.name} is damaged: it has {found} bytes, and {size} were written")
    return file


def content_error(path: Path, error: OSError) -> ContentError:
    """Return the error that says what is wrong with a content."""
    if error.errno in _MISSING:
        return ContentError(f"{path.name} is missing from the directory of batches")
    if error.errno == errno.EISDIR:
        return ContentError(f"{path.name} cannot be read: it is a directory, not a regular file")
    return ContentError(f"{path.name} cannot be read: {error.strerror}")


def drop_file(file: BinaryIO, path: Path) -> None:
    """Remove a file that is being written."""
    with storage_errors():
        path.unlink(missing_ok=True)
    # The part that it has not written yet may find no room.
    with suppress(OSError):
        file.close()


def keep_file(file: BinaryIO, path: Path, place: Path) -> None:
    """Move a written file into its place, so that a crash or a power failure finds all or nothing.

    Raises:
        StoreError: as `BatchStore`.
    """
    with storage_errors():
        file.flush()
        os.fsync(file.fileno())
        file.close()
        place.parent.mkdir(mode=0o700, exist_ok=True)
        path.replace(place)
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_content(path: Path) -> None:
    """Remove a content. One that cannot be removed, such as a directory, stays."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", path, error.strerror)
