"""Texts of libraries' exceptions, without paths of their build machines and of this machine."""

from __future__ import annotations

import re
from typing import Final

# Texts of OpenVINO and openvino-genai begin with places in C++ files of their build machines, and
# continue with the failed condition: neither helps a client, and no path may reach one.
_PREFIX: Final = re.compile(r"^(?:Caught exception:)? ?(?:Exception from .*?:\d+:?)?")
_NOISE: Final = re.compile(r"^(Check '.*' failed at .*:\d+:?|\[json\.exception.*?\]|\s*)$")
#: ``at file.cpp:123:`` with or without folders.
_PLACE: Final = re.compile(
    r"(?: at )?(?<![\w./\\+-])(?:[A-Za-z]:)?[\w./\\+-]*\.(?:cpp|cc|hpp|h)\b(?::\d+)*:?"
)
#: Folders of any file. Their names may have spaces, but not at the end: two paths in a sentence
#: remain two files.
_FOLDERS: Final = re.compile(r"(?<![\w.])(?:/[\w.+@-]+(?: +[\w.+@-]+)*)+/(?=[\w.+@-])")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_LIMIT: Final = 400


def lacks_memory(error: BaseException) -> bool:
    """Return whether an exception, Python's or a library's, says that memory is missing."""
    # pybind11 makes MemoryError of std::bad_alloc; where OpenVINO has caught it first, a
    # RuntimeError quotes it.
    return isinstance(error, MemoryError) or "bad_alloc" in str(error)


def library_reason(error: BaseException | str) -> str:
    """Return one line for a client or a log: the library's own text, cleaned; never empty."""
    lines = [_PREFIX.sub("", line) for line in str(error).splitlines()]
    text = " ".join(line.strip() for line in lines if not _NOISE.match(line))
    text = _FOLDERS.sub("", _PLACE.sub(" ", text))
    text = " ".join(_ADDRESS.sub("an address", text).split())
    # Some texts quote a whole grammar or a model's inputs.
    return text[:_LIMIT] or "the library gave no reason"
