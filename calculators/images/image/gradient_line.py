"""Lines whose color changes from one end to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calculators.images.image.opencv import opencv

Point = tuple[int, int]
Ints = npt.NDArray[np.int64]


def draw_gradient(
    image: npt.NDArray[np.uint8],
    ends: tuple[Point, Point],
    colors: npt.NDArray[np.float64],
    thickness: int,
) -> None:
    """Draw a line in place: a square of one color at each of its pixels.

    Args:
        image: (height, width, channels).
        ends: in pixels.
        colors: (2, 3): at the two ends.
        thickness: side of the squares, whose top left corners are the line's pixels.

    Source: MediaPipe ``util/annotation_renderer.cc``.
    """
    height, width = image.shape[:2]
    # OpenCV's iterator begins where the line enters the image, and so do the colors.
    is_visible, start, end = opencv().clipLine((0, 0, width, height), *ends)
    if not is_visible:
        return
    (x, y), signs = _pixels(start, end)
    part = np.arange(len(x))[:, np.newaxis] / len(x)
    mixed = (colors[0] * (1 - part) + colors[1] * part).astype(np.uint8)
    # The square of a later pixel is over that of an earlier one, so a square's leading rows and
    # columns come first.
    sides = [range(thickness - 1, -1, -1) if sign > 0 else range(thickness) for sign in signs]
    for across in sides[0]:
        for down in sides[1]:
            columns, rows = x + across, y + down
            inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
            image[rows[inside], columns[inside], :3] = mixed[inside]


def _pixels(start: Point, end: Point) -> tuple[tuple[Ints, Ints], tuple[int, int]]:
    """The pixels of a line as 4-connected neighbours, and its direction along both axes.

    They are those of OpenCV's ``LineIterator``.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    signs = (1 if dx >= 0 else -1, 1 if dy >= 0 else -1)
    long, short = max(abs(dx), abs(dy)), min(abs(dx), abs(dy))
    steps = np.arange(long + 1, dtype=np.int64)
    # After each step along the longer axis, at most one along the shorter.
    sides = -(-short * steps // max(long, 1))
    turns = np.flatnonzero(np.diff(sides)) + 1
    main = np.insert(steps, turns, steps[turns])
    other = np.insert(sides, turns, sides[turns - 1])
    along_x, along_y = (main, other) if abs(dx) >= abs(dy) else (other, main)
    return (start[0] + signs[0] * along_x, start[1] + signs[1] * along_y), signs
