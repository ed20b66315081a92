"""An image of a request: before it is fetched, before it is decoded, and decoded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class ImageReference(NamedTuple):
    """The source of an image, ``url``, and the request's member that names it."""

    url: str
    param: str


class EncodedImage(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of an image file, maybe as Base64; ``param``: the request's member, for errors."""

    param: str
    data: bytes
    is_base64: bool = False


class Image(msgspec.Struct, frozen=True, array_like=True):
    """A decoded image. ``pixels``: RGB, uint8, of the shape (height, width, 3)."""

    height: int
    width: int
    pixels: bytes
