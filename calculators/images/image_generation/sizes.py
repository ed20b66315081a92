"""Sizes of images in pixels, written ``WxH``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

#: Models compute on an image that is smaller by this factor, so sides are its multiples.
SIDE_STEP: Final = 8
#: Pixels of one image. A message with a larger one would be too long.
MAX_PIXELS: Final = 40_000_000

_SIZE: Final = re.compile(r"(-?\d{1,18})x(-?\d{1,18})", re.ASCII)


class Size(NamedTuple):
    """A size in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def is_drawable(self) -> bool:
        """True if both sides are positive multiples of `SIDE_STEP`."""
        return min(self) > 0 and not any(side % SIDE_STEP for side in self)

    def fits(self, largest: Size) -> bool:
        """Return whether no side is longer than that of ``largest``."""
        return self.width <= largest.width and self.height <= largest.height


def parse_size(text: str) -> Size | None:
    """Read ``WxH``; None for ``auto``.

    Raises:
        ValueError: it is no size; the texts are OpenVINO Model Server's.
    """
    if text == "auto":
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("size field is not in correct format - WxH")
    size = Size(int(match[1]), int(match[2]))
    if min(size) <= 0:
        raise ValueError("size field values must be greater than 0")
    return size


def listed(sizes: Sequence[Size]) -> str:
    """Return sizes as text, for messages."""
    return ", ".join(map(str, sizes))


def size_near(width: int, height: int, largest: Size) -> Size:
    """Return the size to draw in for an image of ``width`` x ``height`` pixels.

    It is the largest of about the same shape that is no larger than the image or ``largest``; its
    sides are multiples of `SIDE_STEP`.
    """
    scale = min(1.0, largest.width / width, largest.height / height)
    return Size(_side(width * scale, largest.width), _side(height * scale, largest.height))


def _side(length: float, most: int) -> int:
    steps = min(round(length / SIDE_STEP), most // SIDE_STEP)
    return max(steps, 1) * SIDE_STEP
