"""Estimated widths of texts, a little more than most fonts need: the reader's font is unknown."""

from __future__ import annotations

import unicodedata

TITLE_SIZE = 13.0

_NARROW = frozenset("fijlrtI.,:;'!|()[]{} -")
_BROAD = frozenset("mwMWQOGDHNU@%_")


def text_width(text: str, size: float) -> float:
    """Return the width in pixels for a sans-serif font of ``size`` pixels."""
    return sum(_em(char) for char in text) * size


def _em(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in _NARROW:
        return 0.36
    if char in _BROAD:
        return 0.78
    return 0.68 if char.isupper() else 0.59


def title_width(text: str) -> float:
    """Return the width of a bold title of `TITLE_SIZE`."""
    return text_width(text, TITLE_SIZE) * 1.14


def mono_width(text: str, size: float) -> float:
    """Return the width in pixels in a font whose letters are all 0.6 of ``size`` wide."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return (len(text) + 0.7 * wide) * 0.6 * size
