"""Errors of the store of files and batches."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from graph_runtime import Code, GraphError


class StoreError(GraphError):
    """The store cannot be used; the text says why."""

    code = Code.UNAVAILABLE


class StorageFullError(StoreError):
    """The disk of the store is full. Nothing was written."""


class ContentError(StoreError):
    """The content of one file is missing or damaged. Other files are not concerned."""


class NotStoredError(GraphError):
    """The file or batch does not exist, or belongs to another client."""

    code = Code.NOT_FOUND


class NotNowError(GraphError):
    """The state of the file or batch does not allow this."""

    code = Code.ALREADY_EXISTS


class DamagedStoreError(StoreError):
    """The database is no database, or its structure is damaged."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: SQLite's errors of a full disk. A write beyond a limit of the file's size, a log whose index
#: cannot grow, and a synchronization that finds no room are errors of input and output.
_FULL_NAMES = frozenset(
    {
        "SQLITE_FULL",
        "SQLITE_IOERR_WRITE",
        "SQLITE_IOERR_FSYNC",
        "SQLITE_IOERR_DIR_FSYNC",
        "SQLITE_IOERR_TRUNCATE",
        "SQLITE_IOERR_SHMSIZE",
        "SQLITE_IOERR_SHMMAP",
    }
)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise a `StoreError` for errors of the disk and of SQLite.

    Raises:
        StorageFullError: the disk is full.
        DamagedStoreError: the database is damaged.
        StoreError: any other reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("the disk for files and batches is full") from error
        raise StoreError("the files of batches cannot be read or written") from error
    except sqlite3.Error as error:
        name, code = _sqlite_error(error)
        if name in _FULL_NAMES:
            raise StorageFullError("the disk for files and batches is full") from error
        if code & 0xFF in _DAMAGED:
            raise DamagedStoreError("the database of files and batches is damaged") from error
        raise StoreError("the store of batches cannot be read or written") from error


def _sqlite_error(error: sqlite3.Error) -> tuple[str, int]:
    """Return name and code of an error; those that Python's module raises itself have none."""
    return getattr(error, "sqlite_errorname", ""), getattr(error, "sqlite_errorcode", 0)
