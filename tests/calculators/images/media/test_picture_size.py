"""Sizes of pictures by their headers."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from calculators.images.media.image import EncodedImage, pixels_of


def encoded(kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (301, 203)).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + bytes(5000)}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
    ],
)
def test_the_size_is_that_of_the_header(kind: str, options: dict[str, object]) -> None:
    data = encoded(kind, **options)
    images = [
        EncodedImage("a", data),
        EncodedImage("b", base64.b64encode(data), is_base64=True),
    ]
    assert [pixels_of([each]) for each in images] == [301 * 203] * 2
    assert pixels_of(images) == 2 * 301 * 203


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff", b"RIFF", b"BM", b"GIF89a"])
def test_what_is_no_picture_has_no_size(data: bytes) -> None:
    assert pixels_of([EncodedImage("a", data)]) == 0
    assert pixels_of([EncodedImage("a", data + b"\xff" * 9, is_base64=True)]) == 0


def test_a_jpeg_whose_segments_lead_nowhere_ends() -> None:
    assert pixels_of([EncodedImage("a", b"\xff\xd8" + b"\xff\xe1\x00\x00" * 20_000)]) == 0
