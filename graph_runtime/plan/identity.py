"""`identity_of`: a text that two resources have in common if one can stand in for the other."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable


def identity_of(*parts: object, files: Iterable[os.PathLike[str] | str] = ()) -> str:
    """Return the identity of a resource that is made of these parts and files, as hexadecimal.

    A file counts by its real path, size, times and inode, not by its content: weights are large. A
    file that is missing counts too, so that its arrival changes the identity. Reads the file
    system: for a thread.

    Args:
        parts: values whose ``repr`` says all that matters about them.
        files: all files that are read when the resource is made.
    """
    digest = hashlib.sha256(repr(parts).encode(errors="surrogateescape"))
    for path in sorted(os.path.realpath(file) for file in files):
        digest.update(f"\0{path}\0{_stamp(path)}".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError as error:
        return type(error).__name__
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
