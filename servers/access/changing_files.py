"""Files that an operator may change while the server runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from calculators.file_threads import FilesNotAnsweringError, in_file_thread

_State: TypeAlias = tuple[int, int, int] | None

#: Seconds between two looks at a file.
LOOK_SECONDS: Final = 1.0

_log: Final = logging.getLogger(__name__)


class ChangingFiles:
    """Detects changes of some files between two looks.

    A file that is replaced under its name has changed, also when the name is a link and the link
    changes, as in Kubernetes.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._known: tuple[_State, ...] = self._look()

    def have_changed(self) -> bool:
        """Look at the files. True once per change."""
        seen = self._look()
        if seen == self._known:
            return False
        self._known = seen
        return True

    def forget(self) -> None:
        """Let the next look report a change: the files could not be read."""
        self._known = ()

    def _look(self) -> tuple[_State, ...]:
        return tuple(_state(path) for path in self._paths)


class Followed(Protocol):
    """The content of files that `follow` keeps up to date."""

    @property
    def owner(self) -> str:
        """The name of the files in errors: ``the API keys in keys.txt``."""

    def read_again(self) -> None:
        """Read the files if they have changed; what is wrong with them is logged, not raised.

        Blocks, so it is called in a thread. Calls do not overlap.
        """


async def follow(followed: Iterable[Followed]) -> None:
    """Look at files every `LOOK_SECONDS`, until this is cancelled.

    Files that do not answer, as on a network mount that is gone, delay neither the event loop nor
    other files; what was read from them before stays in use.
    """
    async with asyncio.TaskGroup() as tasks:
        for each in followed:
            tasks.create_task(_follow(each), name=f"follow {each.owner}")


async def _follow(followed: Followed) -> None:
    answers = True
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await in_file_thread(followed.owner, followed.read_again)
        except FilesNotAnsweringError as error:
            if answers:
                _log.error("%s; what was read before stays", error)
            answers = False
        except Exception:
            _log.exception("%s cannot be read again", followed.owner)
        else:
            answers = True


def is_open_to_others(path: Path) -> bool:
    """Return whether users besides the owner and the group may read a file; on POSIX systems."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o004)


def _state(path: Path) -> _State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
