"""Error texts that may go to a client: short, one line, nothing of the server's insides."""

from __future__ import annotations

import re

MAX_CHARS = 512

# Control characters (terminal escapes, line ends), and what turns the direction of text.
_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SOURCE_LINE = re.compile(
    r"(?:Exception from |at )?[\w./+-]+\.(?:cpp|cc|cxx|hpp|hh|h|c|pyx|py):\d+(?::\d+)?:?"
)
# Two components at least. Not after a word, a slash, a colon or "#": URLs and JSON pointers stay,
# and so do the paths that clients ask for.
_PATH = re.compile(
    r"(?<![\w/:.#])(?!/v[123]/)(?:[A-Za-z]:\\|~?/)[\w.+@-]+(?:[\\/][\w.+@-]+)+[\\/]?"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def clean(text: str) -> str:
    """``text`` fit for a client, at most `MAX_CHARS` long."""
    text = _CONTROL.sub(" ", text[: 8 * MAX_CHARS])
    text = _SURROGATE.sub("?", text)
    text = _SOURCE_LINE.sub("", text)
    text = _PATH.sub("<path>", text)
    text = _ADDRESS.sub("<address>", text)
    text = text.strip()
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 3] + "..."
