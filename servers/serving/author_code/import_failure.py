"""Failures of imports, with the place in the author's code."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A module that cannot be imported. ``reason`` is type and text of the exception, in a line."""

    file: Path
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else str(self.file)
        return f"{place}: {self.reason}"


def import_failure(error: BaseException, path: Path) -> ImportFailure:
    """Return the failure of importing ``path``, a file or the directory of a package.

    The place is the innermost frame below ``path``, else the innermost frame of all.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return ImportFailure(Path(error.filename), error.lineno, f"SyntaxError: {error.msg}")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_machinery(frame.filename)
    ]
    is_own: Callable[[str], bool] = lambda name: Path(name).is_relative_to(path)  # noqa: E731
    frame = next((each for each in reversed(frames) if is_own(each.filename)), None)
    if frame is None and frames:
        frame = frames[-1]
    text = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if frame is None:
        return ImportFailure(path, None, reason)
    return ImportFailure(Path(frame.filename), frame.lineno, reason)


def _is_machinery(filename: str) -> bool:
    """True for files of the import machinery."""
    own = os.path.dirname(__file__) + os.sep
    return filename.startswith(own) or f"{os.sep}importlib{os.sep}" in filename
