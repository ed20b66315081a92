"""`OwnedFolder`: a folder for temporary files that does not outlive its process for long.

A process that is killed removes nothing. So each such folder has a lock, which the kernel takes
from a process however it ends, and the maker of the next folder of the kind removes those without
an owner.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"


class OwnedFolder:
    """A folder that only this user can enter.

    Attributes:
        path: of the folder, absolute.
    """

    def __init__(self, kind: str) -> None:
        """Make the folder ``graphrt-KIND-...``, and remove folders that killed processes left.

        Raises:
            OSError: there is no folder for temporary files.
        """
        prefix = f"graphrt-{kind}-"
        _remove_left(prefix)
        self.path = tempfile.mkdtemp(prefix=prefix)
        try:
            lock = _locked(os.path.join(self.path, _LOCK))
        except OSError:
            # Without a lock nobody would ever remove it.
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        #: Held as long as this process lives.
        self._lock: int | None = lock

    def remove(self) -> None:
        """Remove the folder with all that is in it. Removing it again does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)


def _locked(path: str) -> int:
    """Make a file that is locked from the moment it has its name; return the descriptor."""
    lock = os.open(f"{path}.new", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(f"{path}.new", path)
    except OSError:
        os.close(lock)
        raise
    return lock


def _remove_left(prefix: str) -> None:
    """Remove the folders of processes that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            # Not created, because a folder without a lock is just being made.
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # it is of another user, or gone
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)
