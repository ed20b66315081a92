"""`Image`: a decoded picture."""

from __future__ import annotations

import msgspec


class Image(msgspec.Struct, frozen=True, array_like=True):
    """A decoded image. ``pixels``: RGB, uint8, of the shape (height, width, 3)."""

    height: int
    width: int
    pixels: bytes
