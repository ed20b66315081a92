"""The line of an author's code that an exception came from."""

from __future__ import annotations

import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[2]
_OWN = tuple(f"{_ROOT / room}{os.sep}" for room in ("graph_runtime", "servers", "calculators"))


class AuthorFrame(NamedTuple):
    """A line of code that is neither graphrt's nor a library's."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in {self.function}"


def author_frame(error: BaseException | None) -> AuthorFrame | None:
    """Return the innermost line of an author's code that ``error``, or its cause, came through.

    The frame holds a path: use it in tools and logs, not in answers to clients.
    """
    while error is not None:
        frames = [
            AuthorFrame(frame.filename, frame.lineno, frame.name)
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.lineno is not None and not _is_foreign(frame.filename)
        ]
        if frames:
            return frames[-1]
        error = error.__cause__
    return None


def _is_foreign(filename: str) -> bool:
    return filename.startswith("<") or os.path.abspath(filename).startswith(
        (*_OWN, *_library_directories())
    )


@cache
def _library_directories() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(
        {f"{paths[key]}{os.sep}" for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    )
