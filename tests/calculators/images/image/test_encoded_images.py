"""JPEG and PNG: decoded within limits, and made."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from calculators.images.image.encoded_image import (
    ImageLimits,
    decode_image,
    encode_image,
    read_header,
)
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from graph_runtime import Code, GraphError
from tests.calculators.images.image.runs import image, node, run

DECODER = "OpenCvEncodedImageToImageFrameCalculator"
DECODE = node(DECODER, "", 'input_stream: "in"', 'output_stream: "out"')


def png(frame: ImageFrame) -> bytes:
    return encode_image(frame, quality=0, kind="PNG")


def jpeg(frame: ImageFrame, quality: int = 95) -> bytes:
    return encode_image(frame, quality=quality)


def chunk(kind: bytes, data: bytes) -> bytes:
    crc = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def claiming(width: int, height: int) -> bytes:
    """Return a valid PNG of that size with almost no pixels in it."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")


def with_orientation(content: bytes, orientation: int) -> bytes:
    """Return a JPEG with EXIF data that gives its orientation."""
    tiff = b"MM\x00*\x00\x00\x00\x08\x00\x01" + struct.pack(">HHIHH", 0x112, 3, 1, orientation, 0)
    exif = b"Exif\x00\x00" + tiff + bytes(4)
    return content[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + content[2:]


@pytest.mark.parametrize(
    "image_format",
    [ImageFormat.GRAY8, ImageFormat.SRGB, ImageFormat.GRAY16, ImageFormat.SRGB48],
)
def test_a_png_decodes_to_its_pixels(image_format: ImageFormat) -> None:
    frame = image(7, 5, image_format)
    assert decode_image(png(frame)) == frame


def test_alpha_stays_unless_orientation_is_applied() -> None:
    frame = image(7, 5, ImageFormat.SRGBA)
    assert decode_image(png(frame), apply_orientation=False) == frame
    assert decode_image(png(frame)).image_format == ImageFormat.SRGB


def test_a_jpeg_decodes_nearly_to_its_pixels() -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:, :8], pixels[:, 8:] = (200, 30, 40), (10, 20, 220)
    found = decode_image(jpeg(ImageFrame(ImageFormat.SRGB, pixels), 100)).pixels
    assert np.abs(found.astype(int) - pixels).mean() < 6


def test_orientation_is_applied_on_request() -> None:
    content = with_orientation(jpeg(image(16, 8)), 6)
    turned = decode_image(content)
    assert (turned.width, turned.height) == (8, 16)
    as_it_is = decode_image(content, apply_orientation=False)
    assert (as_it_is.width, as_it_is.height) == (16, 8)


def test_the_size_is_read_before_anything_is_decoded() -> None:
    assert read_header(png(image(7, 5))) == ("PNG", 7, 5)
    assert read_header(jpeg(image(7, 5))) == ("JPEG", 7, 5)
    assert read_header(with_orientation(jpeg(image(7, 5)), 3)) == ("JPEG", 7, 5)


def test_a_jpeg_may_have_padding_between_its_segments() -> None:
    content = jpeg(image(7, 5))
    padded = content[:2] + b"\xff\x01\xff\xff" + content[2:]
    assert read_header(padded) == ("JPEG", 7, 5)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the image is empty; a JPEG or PNG is expected"),
        (b"<svg/>", "the bytes are not an image that is known here; a JPEG or PNG is expected"),
        (b"GIF89a" + bytes(40), "a JPEG or PNG is expected"),
        (b"\x89PNG\r\n\x1a\n", "the PNG is cut off or damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "the PNG is cut off or damaged"),
        (b"\xff\xd8\xff", "the JPEG is cut off or damaged: it does not say its size"),
        (b"\xff\xd8\xff\xd9", "the JPEG is cut off or damaged"),
        (b"\xff\xd8\xff\xc0\x00\x11\x08\x00", "the JPEG is cut off or damaged"),
        (b"\xff\xd8\xff\xe0\xff\xff" + bytes(9), "the JPEG is cut off or damaged"),
        (claiming(0, 5), "the PNG has no pixels: it is 0x5"),
        (claiming(60_000, 60_000), "the PNG is 60000x60000; at most 40000000 pixels are taken"),
        (jpeg(image(40, 30))[:300], "the JPEG cannot be decoded: it is damaged or cut off"),
    ],
    ids=range(12),
)
def test_data_that_is_not_an_image_is_refused(content: bytes, text: str) -> None:
    with pytest.raises(ImageError, match=text):
        decode_image(content)


def test_the_caller_sets_the_limits() -> None:
    content = png(image(7, 5))
    with pytest.raises(ImageError, match=r"has \d+ bytes; at most 20 are taken"):
        decode_image(content, limits=ImageLimits(encoded_bytes=20))
    with pytest.raises(ImageError, match="is 7x5; at most 34 pixels are taken"):
        decode_image(content, limits=ImageLimits(pixels=34))
    assert decode_image(content, limits=ImageLimits(len(content), 35)).width == 7


def test_formats_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(ImageError, match="VEC32F2 cannot be a PNG"):
        png(image(3, 3, ImageFormat.VEC32F2))
    with pytest.raises(ImageError, match="GRAY16 cannot be a JPEG"):
        jpeg(image(3, 3, ImageFormat.GRAY16))


def test_the_decoder_accepts_bytes_and_tensors_of_bytes() -> None:
    frame = image(7, 5)
    content = png(frame)
    element = np.empty(1, object)
    element[0] = content
    for value in (content, element, np.frombuffer(content, np.uint8)):
        assert run(DECODE, {"in": value})["out"] == [frame]


def test_the_decoder_refuses_other_tensors() -> None:
    with pytest.raises(GraphError, match=r"this is a tensor of float32 with the shape \(2, 2\)"):
        run(DECODE, {"in": np.zeros((2, 2), np.float32)})


def test_data_that_is_not_an_image_fails_the_graph_with_the_reason() -> None:
    with pytest.raises(GraphError, match="a JPEG or PNG is expected") as caught:
        run(DECODE, {"in": b"no image"})
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_the_decoder_turns_images_if_the_options_say_so() -> None:
    content = with_orientation(jpeg(image(16, 8)), 6)
    options = "apply_orientation_from_exif_data: true"
    text = node(DECODER, options, 'input_stream: "in"', 'output_stream: "out"')
    assert run(text, {"in": content})["out"][0].width == 8
    assert run(DECODE, {"in": content})["out"][0].width == 16


def test_the_encoder_sends_jpeg_size_and_colours() -> None:
    text = node(
        "OpenCvImageEncoderCalculator",
        "quality: 90",
        'input_stream: "in"',
        'output_stream: "out"',
    )
    (results,) = run(text, {"in": image(20, 10)})["out"]
    assert (results.width, results.height, results.colorspace) == (20, 10, 2)
    assert read_header(results.encoded_image) == ("JPEG", 20, 10)
    (gray,) = run(text, {"in": image(20, 10, ImageFormat.GRAY8)})["out"]
    assert gray.colorspace == 1
    assert len(results.encoded_image) > len(gray.encoded_image)
    with pytest.raises(GraphError, match="SRGBA cannot be encoded; it has to have 1 or 3 channels"):
        run(text, {"in": image(4, 4, ImageFormat.SRGBA)})
