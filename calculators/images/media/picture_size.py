"""The size of a picture by its header: an estimate of what its decoding costs, and no check.

Read in the server, where no decoder sees clients' data: a few bytes at fixed places, and for JPEG
the lengths of its segments.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from typing import Final

from calculators.images.media.image import EncodedImage

#: Bytes in which the size is looked for: JPEGs of cameras have a small picture before it.
_HEADER: Final = 64 * 1024
#: JPEG's markers of frames: C0 to CF but those of tables.
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def pixels_of(images: Sequence[EncodedImage]) -> int:
    """Return the number of pixels of all pictures, 0 for those whose header is not understood."""
    return sum(map(_pixels, images))


def _pixels(image: EncodedImage) -> int:
    data = image.data[: _HEADER * 4 // 3 // 4 * 4 if image.is_base64 else _HEADER]
    try:
        if image.is_base64:
            data = base64.b64decode(data[: len(data) // 4 * 4])
        for begins, size in _READERS:
            if data.startswith(begins):
                width, height = size(data)
                return width * height
    except (binascii.Error, struct.error, IndexError, ValueError):
        pass
    return 0


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _bmp(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<ii", data, 18)
    return abs(width), abs(height)


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return (
            int.from_bytes(data[24:27], "little") + 1,
            int.from_bytes(data[27:30], "little") + 1,
        )
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, place)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + length


_READERS: Final[tuple[tuple[bytes, Callable[[bytes], tuple[int, int]]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8\xff", _jpeg),
    (b"RIFF", _webp),
    (b"GIF8", _gif),
    (b"BM", _bmp),
)
