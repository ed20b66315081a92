"""Files that an operator may change while the server runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from calculators.kit.file_threads import FilesNotAnsweringError, in_file_thread

#: Seconds between two looks at a file.
LOOK_SECONDS: Final = 1.0

_log: Final = logging.getLogger(__name__)


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
