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


class NotStoredError(GraphError):
    """The file or batch does not exist, or belongs to another client."""

    code = Code.NOT_FOUND


class NotNowError(GraphError):
    """The state of the file or batch does not allow this."""

    code = Code.ALREADY_EXISTS


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise a `StoreError` for errors of the disk and of SQLite.

    Raises:
        StorageFullError: the disk is full.
        StoreError: any other reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("the disk for files and batches is full") from error
        raise StoreError("the files of batches cannot be read or written") from error
    except sqlite3.Error as error:
        # A write beyond a limit of the file's size is an error of input and output.
        if error.sqlite_errorname in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise StorageFullError("the disk for files and batches is full") from error
        raise StoreError("the store of batches cannot be read or written") from error
