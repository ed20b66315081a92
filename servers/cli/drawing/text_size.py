"""How wide a text is, about: nobody knows the reader's font, so a little more than most need."""

from __future__ import annotations

import unicodedata

_NARROW = frozenset("fijlrtI.,:;'!|()[]{} -")
_BROAD = frozenset("mwMWQOGDHNU@%_")


def text_width(text: str, size: float) -> float:
    """Pixels, at a font size in pixels, for a sans-serif font."""
    return sum(_em(char) for char in text) * size


def _em(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in _NARROW:
        return 0.36
    if char in _BROAD:
        return 0.78
    return 0.68 if char.isupper() else 0.59
