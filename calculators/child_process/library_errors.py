"""Texts of the engine library's exceptions, without its build machine's paths and lines."""

from __future__ import annotations

import re
from typing import Final

_NOISE: Final = re.compile(
    r"^(Check '.*' failed at .*:\d+:?|Exception from .*:\d+:?|\[json\.exception.*?\]|\s*)$"
)
#: ``file.cpp:123:`` with or without folders, and folders of any file.
_PLACE: Final = re.compile(r"(?:[A-Za-z]:)?[\w./\\+-]*\.(?:cpp|cc|hpp|h)(?::\d+)*:?\s*")
_FOLDERS: Final = re.compile(r"(?<![\w.])(?:/[\w.+@-]+)+/(?=[\w.+@-])")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_LIMIT: Final = 400


def library_reason(error: BaseException | str) -> str:
    """One line for a client or a log: the library's own text, cleaned; never empty."""
    lines = [line for line in str(error).splitlines() if not _NOISE.match(line)]
    text = " ".join(line.strip() for line in lines)
    text = _FOLDERS.sub("", _PLACE.sub("", text))
    text = _ADDRESS.sub("an address", text)
    text = re.sub(r"\s+", " ", text).strip()
    return text[:_LIMIT] or "the engine library gave no reason"
