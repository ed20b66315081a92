"""`SeenFiles`: files as one reading saw them, so that the next change of any of them is noticed.

What was read and what is there are compared, never what was there a moment before it was read: a
file that was half written while it was read differs from the whole one, whenever that came. A name
that was missed is a fact too, and so is an error: a file without permission differs from the same
file with it.

The content decides. A file that was only touched has not changed; a file that was changed twice
within a second, or got its old time back, has. `state_of` reads a file again when its times, size
or place differ, so looking at files that do not change costs a call of the system each.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from graphrt_base.regular_file import being_read, raise_if_exhausted, read_regular_file

#: Times, size and place stand for the content of larger files.
_LARGEST_READ: Final = 16 * 1024 * 1024
#: A file that was changed this shortly before it was read may change again without a change of its
#: times, which some file systems keep in whole seconds. So it is read once more after this time.
_SETTLING_SECONDS: Final = 3.0
#: The most files whose digests are kept; beyond that, all are read again once.
_MOST_KNOWN: Final = 200_000


class SeenFiles:
    """The state of each file that one reading opened or asked for. For one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Callable[[str], str]], str] = {}

    def read(self, path: Path, most_bytes: int) -> bytes:
        """Return the content of a file, as `read_regular_file` does; remembers it or the error.

        Raises:
            OSError, ValueError: see `read_regular_file`.
            DescriptorsExhaustedError: no file can be opened now.
        """
        key = (os.fspath(path), state_of)
        try:
            data = read_regular_file(path, most_bytes)
        except OSError as error:
            self._seen[key] = _state_of_error(error)
            raise
        except ValueError as error:
            self._seen[key] = type(error).__name__
            raise
        # The digest of the very bytes that were read: a digest taken before could be of another
        # content (decision 0092).
        self._seen[key] = _digest(data)
        return data

    def is_file(self, path: Path) -> bool:
        """Return whether there is a regular file; remembers what is there."""
        return self._kind(path) == stat.S_IFREG

    def is_dir(self, path: Path) -> bool:
        """Return whether there is a directory; remembers what is there."""
        return self._kind(path) == stat.S_IFDIR

    def exists(self, path: Path) -> bool:
        """Return whether there is anything; remembers what is there."""
        return self._kind(path) != 0

    def _kind(self, path: Path) -> int:
        key = (os.fspath(path), _kind_of_path)
        # One reading has one view of a name, also when it asks twice.
        return int(self._seen.setdefault(key, _kind_of_path(key[0])))

    def add(self, others: Iterable[SeenFiles]) -> None:
        """Take what other readings saw."""
        for other in others:
            self._seen.update(other._seen)

    def have_changed(self) -> bool:
        """Return True if a file is not as it was seen. Reads files: for a thread.

        Raises:
            DescriptorsExhaustedError: no file can be opened now.
        """
        return any(look(path) != seen for (path, look), seen in self._seen.items())


def state_of(path: str) -> str:
    """Return the digest of a file's content, or a word for the reason why it has none.

    Raises:
        DescriptorsExhaustedError: no file can be opened now.
    """
    return _CONTENTS.state_of(path)


class FileMarks(NamedTuple):
    """Times, size and place of a file: one of them changes with every change of the content that
    the file system can tell from another."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int
    mode: int


def marks_of(path: str) -> FileMarks | None:
    """Return the marks of a file; None if it cannot be looked at."""
    try:
        with being_read(path):
            return _marks(os.stat(path))
    except (OSError, ValueError):
        return None


def forget_contents() -> None:
    """Let every file be read when `state_of` is asked the next time, whatever its times say."""
    _CONTENTS.forget()


def _kind_of(path: str) -> int:
    """Return the type of a file, as in its mode; 0 if there is none, or none that can be seen."""
    try:
        with being_read(path):
            return stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return 0


def _kind_of_path(path: str) -> str:
    return str(_kind_of(path))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _state_of_error(error: OSError) -> str:
    # A large file is an error for its reader, and a state by its marks here: read again each time.
    return type(error).__name__


def _marks(status: os.stat_result) -> FileMarks:
    return FileMarks(
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_size,
        status.st_ino,
        status.st_dev,
        status.st_mode,
    )


class _Known(NamedTuple):
    """The digest of a file. ``seen_at`` is when its marks were first seen, in monotonic seconds."""

    marks: FileMarks
    digest: str
    seen_at: float
    is_settled: bool


class _Contents:
    """Digests of files, which are read again only when their times, sizes or places change."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def forget(self) -> None:
        self._known.clear()

    def state_of(self, path: str) -> str:
        try:
            with being_read(path):
                status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                return f"no regular file: {stat.S_IFMT(status.st_mode)}"
            marks = _marks(status)
            if status.st_size > _LARGEST_READ:
                # A model of gigabytes is not read at every poll; a touched file of this size counts
                # as changed (decision 0092).
                return " ".join(map(str, marks))
            known = self._known.get(path)
            is_same = known is not None and known.marks == marks
            if known is not None and is_same and known.is_settled:
                return known.digest
            now = time.monotonic()
            seen_at = known.seen_at if known is not None and is_same else now
            digest = _digest(read_regular_file(path, _LARGEST_READ))
        except OSError as error:
            raise_if_exhausted(error)
            return _state_of_error(error)
        except ValueError as error:  # a NUL in the path
            return type(error).__name__
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        # Times are coarse: two changes within one second may have the same (decision 0037).
        self._known[path] = _Known(marks, digest, seen_at, now - seen_at > _SETTLING_SECONDS)
        return digest


_CONTENTS: Final = _Contents()
