"""Texts of OpenVINO's exceptions, without paths of its build machine and of this machine."""

from __future__ import annotations

import re
from typing import Final

_NOISE: Final = re.compile(r"^(Exception from .*:\d+:?|Caught exception:|\s*)$")
_PREFIX: Final = re.compile(r"^Caught exception: ?(Exception from .*:\d+:?)?")
#: ``at src/file.cpp:123:``
_PLACE: Final = re.compile(r"(?: at )?[\w./\\+-]*\.(?:cpp|cc|hpp|h)(?::\d+)+:?")
_FOLDERS: Final = re.compile(r"(?<![\w.])(?:/[\w.+@ -]+)+/(?=[\w.+@-])")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_LIMIT: Final = 400


def openvino_reason(error: BaseException) -> str:
    """One line for a client or a log: the library's own text, cleaned; never empty."""
    lines = [_PREFIX.sub("", line) for line in str(error).splitlines() if not _NOISE.match(line)]
    text = _FOLDERS.sub("", _PLACE.sub("", " ".join(lines)))
    text = _ADDRESS.sub("an address", text)
    text = " ".join(text.split())
    return text[:_LIMIT] or "OpenVINO gave no reason"
