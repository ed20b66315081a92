"""A run that never answers, and the named pipe through which it reports beginning and end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests.process.kserve.asked import Asked, array

#: In seconds; long enough for a request to reach the server.
SOON: Final = 0.5


class Endless:
    """A request that is never answered: ``asked``."""

    def __init__(self, pipe: Path, words: IO[str]) -> None:
        self.asked = Asked("endless", {"value": array([1])}, {"pipe": str(pipe)}, id="endless")
        self._words = words

    def wait_until_begun(self) -> None:
        """Wait until the calculator runs."""
        assert self._words.readline() == "begun\n"

    def end(self) -> str:
        """Wait until the calculator is ended; return its report."""
        return self._words.readline().strip()


@contextmanager
def endless() -> Iterator[Endless]:
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        # Opened for reading and writing, so that the calculator does not wait for a reader.
        with open(os.open(pipe, os.O_RDWR)) as words:
            yield Endless(pipe, words)
