"""Measures of drawings: crossings of lines, and their length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from servers.drawing.level import Point

#: The lines of each stream, or of whatever shares its lines: corners of horizontal and vertical
#: pieces.
Lines = Mapping[object, Sequence[Sequence[Point]]]


def length(lines: Lines) -> float:
    """Return the sum of the lengths of all lines."""
    return sum(
        abs(a[0] - b[0]) + abs(a[1] - b[1])
        for each in lines.values()
        for line in each
        for a, b in pairwise(line)
    )


def crossings(lines: Lines) -> int:
    """Return the number of points where lines of different streams cross."""
    level = {key: _pieces(each, 1) for key, each in lines.items()}
    upright = {key: _pieces(each, 0) for key, each in lines.items()}
    total = 0
    for key, across in level.items():
        for other, down in upright.items():
            if key != other:
                total += len(
                    {
                        (x, y)
                        for y, left, right in across
                        for x, top, bottom in down
                        if left + 0.5 < x < right - 0.5 and top + 0.5 < y < bottom - 0.5
                    }
                )
    return total


def _pieces(lines: Iterable[Sequence[Point]], axis: int) -> set[tuple[float, float, float]]:
    """Return the pieces along the other axis: where they are on this one, and their two ends."""
    found = set()
    for line in lines:
        for a, b in pairwise(line):
            if abs(a[axis] - b[axis]) < 0.1 and abs(a[1 - axis] - b[1 - axis]) >= 0.1:
                low, high = sorted((a[1 - axis], b[1 - axis]))
                found.add((round(a[axis], 1), low, high))
    return found
