"""Image files become pixels, or a reason that helps the client."""

from __future__ import annotations

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from calculators.images.media import decoding
from calculators.images.media.decoding import decode_image, decode_images
from calculators.images.media.image import EncodedImage, Image
from calculators.kit.requests.http_payload import RequestError
from tests.calculators.images.media.pictures import (
    RED,
    animation,
    picture,
    promising_png,
    scanned_jpeg,
)


def pixels_of(image: Image) -> NDArray[np.uint8]:
    return np.frombuffer(image.pixels, np.uint8).reshape(image.height, image.width, 3)


def refused(data: bytes) -> str:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        decode_image(data)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_the_usual_formats_are_decoded(kind: str) -> None:
    image = decode_image(picture(8, 6, kind))
    assert (image.height, image.width) == (6, 8)
    assert np.abs(pixels_of(image).astype(int) - RED).max() < 12


def test_an_animation_is_its_first_picture() -> None:
    assert (pixels_of(decode_image(animation())) == RED).all()


@pytest.mark.parametrize(
    ("mode", "colour", "seen"),
    [
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (200, 30, 60, 255), RED),
        ("LA", (0, 0), (255, 255, 255)),
        ("L", 100, (100, 100, 100)),
        ("1", 1, (255, 255, 255)),
        ("I;16", 0x6400, (100, 100, 100)),
    ],
)
def test_every_mode_is_rgb_on_white(
    mode: str, colour: tuple[int, ...] | int, seen: tuple[int, ...]
) -> None:
    image = decode_image(picture(mode=mode, colour=colour))
    assert (pixels_of(image) == seen).all()


def test_a_photograph_is_turned_upright() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # the camera was held upright
    file = io.BytesIO()
    Pillow.new("RGB", (8, 6), RED).save(file, "JPEG", exif=exif)
    image = decode_image(file.getvalue())
    assert (image.height, image.width) == (8, 6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "there is no data"),
        (b"hello world, not an image", "the data is not a PNG, JPEG, WebP, GIF or BMP image"),
        (b"<script>1</script>", "the data is not a PNG, JPEG, WebP, GIF or BMP image"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x"/>', "SVG is not read"),
        (picture(kind="TIFF"), "the data is not a PNG, JPEG, WebP, GIF or BMP image"),
        (picture(300, 300, "JPEG")[:200], "not a PNG|broken"),
        (picture(300, 300)[:-60], "the image is broken, or a part of it is missing"),
        (promising_png(100, 100), "the image is broken, or a part of it is missing"),
    ],
)
def test_data_that_is_not_an_image_is_refused_without_the_decoders_words(
    data: bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_image(data)


@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (60_000, 60_000), (5000, 5001)])
def test_too_many_pixels_are_refused_by_the_header(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", None)
    shown = refused(promising_png(width, height))
    assert shown == (f"the image has {width} x {height} pixels; 25000000 in all are the maximum")


def test_a_jpeg_of_many_scans_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ValueError, match="scans of 16000000 pixels"):
        decode_image(scanned_jpeg(4000, 100))
    assert decode_image(scanned_jpeg(64, 100)).width == 64


def test_an_extreme_aspect_ratio_is_refused() -> None:
    assert "1 x 20000 pixels is too narrow" in refused(picture(1, 20_000))
    assert decode_image(picture(1, 200)).height == 200
    assert decode_image(picture(1, 1)).width == 1


def test_the_images_of_a_request_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_REQUEST_PIXELS", 100)
    images = [EncodedImage(f"messages[0].content[{n}]", picture(8, 6)) for n in range(3)]
    assert len(decode_images(images[:2])) == 2
    with pytest.raises(RequestError, match="with this one the images have 144 pixels") as caught:
        decode_images(images)
    assert caught.value.param == "messages[0].content[2]"


def test_images_that_are_too_many_together_are_refused_before_any_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", None)
    images = [EncodedImage(f"content[{n}]", promising_png(5000, 5000)) for n in range(16)]
    with pytest.raises(RequestError, match="with this one the images have 75000000") as caught:
        decode_images(images)
    assert caught.value.param == "content[2]"


def test_a_large_image_is_reduced_by_a_whole_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_SENT_PIXELS", 1000)
    images = [EncodedImage("a", picture(width, height)) for width, height in ((40, 25), (41, 25))]
    whole, reduced = (decode_images([each])[0] for each in images)
    assert (whole.width, whole.height) == (40, 25)
    assert (reduced.width, reduced.height) == (21, 13)
    assert (pixels_of(reduced) == RED).all()
    # Several share the pixels; what is small stays as it is.
    several = [images[0], EncodedImage("b", picture(8, 6)), images[1]]
    assert [each.width for each in decode_images(several)] == [20, 8, 21]
    (line,) = decode_images([EncodedImage("a", picture(1, 200))])
    assert (line.width, line.height) == (1, 200)
    # A model may look at fewer pixels than that.
    for most, width in ((None, 40), (5000, 40), (250, 20)):
        assert decode_images(images[:1], most)[0].width == width
    # What it may cost is still counted by the file's own pixels.
    monkeypatch.setattr(decoding, "MAX_REQUEST_PIXELS", 2000)
    with pytest.raises(RequestError, match="have 2025 pixels"):
        decode_images(images)


def test_the_bytes_of_an_image_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_IMAGE_BYTES", 20)
    assert refused(picture()) == "the image is larger than 20 bytes"


@pytest.mark.parametrize("text", [b"%%%%", b"aGVsbG8", b"aGVsbG8=?"])
def test_invalid_base64_is_refused(text: bytes) -> None:
    with pytest.raises(RequestError, match="input: the data is not Base64"):
        decode_images([EncodedImage("input", text, is_base64=True)])
