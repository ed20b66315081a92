"""Reading of files that a configuration names: regular files only, up to a size limit.

A pipe would make its reader wait for a writer, and a device such as ``/dev/zero`` has no end.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Final

from graphrt_base.errors import UnavailableError

#: Limit for the files beside a model's weights: the largest known vocabularies have some 40 MB.
MODEL_FILE_BYTES: Final = 256 * 1024 * 1024

_BINARY: Final = getattr(os, "O_BINARY", 0)
_KINDS: Final = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

#: The path that each thread reads now, so that a report can name a file system that hangs.
_being_read: Final[dict[int, str]] = {}


class DescriptorsExhaustedError(UnavailableError):
    """The process or the system has no file descriptor left. Nothing is wrong with the file."""


def raise_if_exhausted(error: OSError) -> None:
    """Turn an error that means "no descriptor left" into an error of its own.

    Raises:
        DescriptorsExhaustedError: ``error`` is EMFILE or ENFILE.
    """
    if error.errno == errno.ENFILE:
        raise DescriptorsExhaustedError(
            "too many open files in the whole system: raise fs.file-max"
        ) from error
    if error.errno == errno.EMFILE:
        raise DescriptorsExhaustedError(
            f"too many open files (limit {_limit()}): raise it with `ulimit -n`, or LimitNOFILE= "
            f"of the service"
        ) from error


def check_descriptors() -> None:
    """Check that a file could be opened now.

    Raises:
        DescriptorsExhaustedError: no descriptor is left.
    """
    try:
        os.close(os.dup(2))
    except OSError as error:
        raise_if_exhausted(error)


def _limit() -> str:
    try:
        import resource
    except ImportError:  # no such limit on Windows
        return "unknown"
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def read_regular_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the content of a file of at most ``most_bytes``; links are followed.

    Raises:
        OSError: the file cannot be read, is not regular (EINVAL, or EISDIR for a directory), or is
            larger (EFBIG). ``strerror`` explains which.
        ValueError: the path contains a NUL character.
        DescriptorsExhaustedError: no file can be opened now.
    """
    with being_read(path), open_regular_file(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", os.fspath(path))
    return data


def open_regular_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading, without waiting for a writer of a pipe; links are followed.

    Raises:
        OSError: the file cannot be opened, or is not regular (EINVAL, or EISDIR for a directory).
        ValueError: the path contains a NUL character.
        DescriptorsExhaustedError: no file can be opened now.
    """
    check_regular_file(path)
    try:
        # A pipe may have replaced the file meanwhile; opening it must not block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except OSError as error:
        raise_if_exhausted(error)
        raise
    file = open(descriptor, "rb")  # noqa: SIM115 - for the caller to close
    try:
        _check_kind(os.fstat(descriptor), path)
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def being_read(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let `read_by` name ``path`` while this thread reads it."""
    thread = threading.get_ident()
    _being_read[thread] = os.fspath(path)
    try:
        yield
    finally:
        _being_read.pop(thread, None)


def read_by(thread: int | None) -> str:
    """Return the path that a thread is reading, or "" if it reads none."""
    return _being_read.get(thread, "") if thread is not None else ""


def check_regular_file(path: str | os.PathLike[str]) -> None:
    """Check that a file is regular, for a library that is about to open it; links are followed.

    Raises:
        OSError: there is no such file, or it is not regular (EINVAL, or EISDIR for a directory).
    """
    _check_kind(os.stat(path), path)


def _check_kind(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "no file")
    raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))
