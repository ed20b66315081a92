"""Files that may change while the server runs, looked at when they are needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

_Look: TypeAlias = tuple[tuple[int, int, int] | None, ...]

#: How often a file is looked at, at most: a look costs two microseconds, and a request may be that
#: short.
LOOK_SECONDS: Final = 1.0


class ChangingFiles:
    """Tells whether any of some files is another than when it was last asked.

    A file that is replaced under its name, also through a link as Kubernetes does it, is another.
    """

    def __init__(
        self, paths: Sequence[Path], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._paths = tuple(paths)
        self._clock = clock
        self._looked_at = clock()
        self._known = self._look()

    def have_changed(self) -> bool:
        """True once per change; False within `LOOK_SECONDS` of the last look."""
        now = self._clock()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        seen = self._look()
        if seen == self._known:
            return False
        self._known = seen
        return True

    def look_again(self) -> None:
        """They could not be read: the next look tells of a change again."""
        self._known = ()

    def _look(self) -> _Look:
        return tuple(_state(path) for path in self._paths)


def is_open_to_others(path: Path) -> bool:
    """May users besides the owner and the group read it? Where files have such rights."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o004)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
