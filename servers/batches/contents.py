"""The contents of files on the disk: opened, put in place and removed.

Anything may have happened to the directory between two starts: a backup restored in part, a
cleaner of temporary files, a disk that lost a block. What is wrong with one content is an error of
that content, and opening it never waits.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from graphrt_base.regular_file import DescriptorsExhaustedError, open_regular_file
from servers.batches.errors import ContentError, StoreError, storage_errors

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
