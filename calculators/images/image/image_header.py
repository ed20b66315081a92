"""`ImageHeader`: kind and size of an encoded image, read before anything is decoded."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from calculators.images.image.image_error import ImageError

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
#: Start-of-frame markers; C4, C8 and CC among them are tables and extensions.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers without a length: TEM, RST0 to RST7, SOI.
_BARE: Final = frozenset((0x01, *range(0xD0, 0xD9)))


class ImageHeader(NamedTuple):
    """Kind and size of an encoded image, from its first bytes.

    Attributes:
        kind: "JPEG" or "PNG".
        width, height: in pixels, before any rotation.
    """

    kind: str
    width: int
    height: int


def read_header(content: bytes | memoryview) -> ImageHeader:
    """Return kind and size of a JPEG or PNG.

    Raises:
        ImageError: the content is neither, or ends before its size.
    """
    data = memoryview(content)
    start = bytes(data[:16])
    if start.startswith(_PNG):
        if start[12:] != b"IHDR" or len(data) < 24:
            raise ImageError("the PNG is cut off or damaged: it does not begin with its size")
        width, height = struct.unpack_from(">II", data, 16)
        return ImageHeader("PNG", width, height)
    if start.startswith(_JPEG):
        return _jpeg(data)
    what = "the image is empty" if len(data) == 0 else "the bytes are no image that is known here"
    raise ImageError(f"{what}; a JPEG or PNG is expected")


def _jpeg(data: memoryview) -> ImageHeader:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker in _BARE:
            at += 2
            continue
        if marker in _FRAMES:
            if at + 9 > len(data):
                break
            height, width = struct.unpack_from(">HH", data, at + 5)
            return ImageHeader("JPEG", width, height)
        if marker in (0xD9, 0xDA):  # the end, or pixels: no size came
            break
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    raise ImageError("the JPEG is cut off or damaged: it does not say its size")
