"""Error texts fit for clients: short, one line, without paths, addresses or source lines."""

from __future__ import annotations

import re

MAX_CHARS = 512

# Control characters (terminal escapes, line ends) and marks of text direction.
_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SOURCE_LINE = re.compile(
    r"(?:Exception from |at )?[\w./+-]+\.(?:cpp|cc|cxx|hpp|hh|h|c|pyx|py):\d+(?::\d+)?:?"
)
# At least two components, and not after a word, a slash, a colon or "#": URLs and JSON pointers
# stay, and so do the paths of requests.
_PATH = re.compile(
    r"(?<![\w/:.#])(?!/v[123]/)(?:[A-Za-z]:\\|~?/)[\w.+@-]+(?:[\\/][\w.+@-]+)+[\\/]?"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def clean(text: str) -> str:
    """Return ``text`` fit for a client, at most `MAX_CHARS` long."""
    text = _CONTROL.sub(" ", text[: 8 * MAX_CHARS])
    text = _SURROGATE.sub("?", text)
    text = _SOURCE_LINE.sub("", text)
    text = _PATH.sub("<path>", text)
    text = _ADDRESS.sub("<address>", text)
    text = text.strip()
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 3] + "..."
