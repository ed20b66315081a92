"""Windows of texts that are longer than the model takes."""

from __future__ import annotations

from typing import Final

#: Neighbours share at least this part of a window, so that a phrase at a border is seen whole.
_SHARED: Final = 8


def window_starts(length: int, room: int) -> list[int]:
    """Return the first tokens of windows of ``room`` tokens over ``length`` tokens.

    All windows have the same size, so that each counts the same in a mean; the last one ends with
    the text. A text that fits has one window.
    """
    if length <= room:
        return [0]
    step = max(room - room // _SHARED, 1)
    count = -(-(length - room) // step)
    return [round(place * (length - room) / count) for place in range(count + 1)]
