"""Pictures of one colour, and hostile ones, made cheaply."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image

RED = (200, 30, 60)


def picture(
    width: int = 8, height: int = 6, kind: str = "PNG", colour: Any = RED, mode: str = "RGB"
) -> bytes:
    """Return a file with a picture of one colour."""
    file = io.BytesIO()
    Image.new(mode, (width, height), colour).save(file, kind)
    return file.getvalue()


def animation() -> bytes:
    """Return a GIF that is first red, and then blue."""
    file = io.BytesIO()
    pictures = [Image.new("RGB", (8, 6), colour) for colour in (RED, (0, 0, 250))]
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


def promising_png(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes whose header claims this many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(bytes(100)))
        + _chunk(b"IEND", b"")
    )


def scanned_jpeg(side: int, scans: int) -> bytes:
    """Return a progressive JPEG with further scans of a few bytes, each over all of its pixels."""
    file = io.BytesIO()
    Image.new("L", (side, side), 128).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    end = data.rindex(b"\xff\xd9")
    return data[:end] + data[data.rindex(b"\xff\xda") : end] * scans + data[end:]


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + checksum


def data_uri(data: bytes, kind: str = "image/png") -> str:
    """Return a picture as requests carry it."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
