"""The nesting of a client's JSON, bounded before it is parsed.

Parsers have bounds of their own, which differ by library and by version of Python: `json` and
msgspec read a thousand levels on Python 3.13 and fail on 3.11. Code after them walks over values
recursively. So text that nests deeper than this is refused or taken for text, everywhere.
"""

from __future__ import annotations

from typing import Final

#: Levels of arrays and objects.
MOST_DEPTH: Final = 100

_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_OPENING: Final = b"[{"


def nests_deeper(text: str | bytes, most: int = MOST_DEPTH) -> bool:
    """Return whether JSON has more than so many levels.

    Of text that is not JSON, the part before the first fault is looked at, and perhaps more.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") <= most:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = 0
    # Without the strings, in which brackets are text.
    for bracket in b"".join(data.split(b'"')[::2]).translate(None, _NOT_BRACKETS):
        if bracket in _OPENING:
            depth += 1
            if depth > most:
                return True
        else:
            depth -= 1
    return False
