"""A run that never answers, and the named pipe in which it tells that it has begun and ended."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests.process.kserve.asked import Asked, array

#: In seconds; long enough for a request to get to the server.
SOON: Final = 0.5


class Endless:
    """A request that is never answered: ``asked``."""

    def __init__(self, pipe: Path, words: IO[str]) -> None:
        self.asked = Asked("endless", {"value": array([1])}, {"pipe": str(pipe)}, id="endless")
        self._words = words

    def wait_until_begun(self) -> None:
        """Return when the calculator runs."""
        assert self._words.readline() == "begun\n"

    def end(self) -> str:
        """Wait until the calculator is told to end; what it says then."""
        return self._words.readline().strip()


@contextmanager
def endless() -> Iterator[Endless]:
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        # Open for both, so that the calculator does not wait for a reader.
        with open(os.open(pipe, os.O_RDWR)) as words:
            yield Endless(pipe, words)
