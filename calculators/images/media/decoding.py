"""Decoding of a request's images into pixels: pictures with Pillow, videos as `video` does.

Runs in child processes only.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps

from calculators.images.media.data_uri import decoded, image_error
from calculators.images.media.image import (
    MAX_IMAGE_BYTES,
    MAX_PIXELS,
    MAX_RATIO,
    MAX_REQUEST_PIXELS,
    MAX_SCANNED_PIXELS,
    MAX_SENT_PIXELS,
    MAX_VIDEO_PIXELS,
    EncodedImage,
    Image,
    VideoSampling,
    pixels_of,
)
from calculators.kit.requests.http_payload import RequestError

#: The only decoders that see clients' data.
FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_NAMES: Final = "PNG, JPEG, WebP, GIF or BMP"
#: JPEG's marker of a scan: within its data, FF is followed by 00 or the number of a restart.
_SCAN: Final = b"\xff\xda"
_WHITE: Final = (255, 255, 255)
_SIXTEEN_BITS: Final = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I"})

# The limits here are lower, and no one would see a warning from the child.
Pillow.MAX_IMAGE_PIXELS = None


def decode_images(images: list[EncodedImage], most: int | None = None) -> tuple[Image, ...]:
    """Decode the images and videos of a request to RGB.

    Args:
        most: pixels above which an image is reduced, if the model makes less of it anyway.

    Raises:
        RequestError: an image cannot be read, or is too large; ``param`` is its place.
        MemoryError: the images do not fit in memory.
    """
    pictures = [picture for each in images for picture in _pictures(each)]
    # By the headers, which say it before any is decoded.
    announced = 0
    for each in pictures:
        size = pixels_of([each])
        if size > MAX_PIXELS:
            break  # that one has an error of its own
        announced += size
        if announced > MAX_REQUEST_PIXELS:
            raise _too_many(each, announced)
    is_much = pixels_of(pictures) > MAX_SENT_PIXELS
    share = MAX_SENT_PIXELS // len(pictures) if is_much else MAX_SENT_PIXELS
    if most is not None:
        share = min(share, most)
    of_video = MAX_VIDEO_PIXELS // max(1, sum(each.video is not None for each in images))
    made: list[Image] = []
    pixels = 0
    for each in images:
        if each.video is None:
            image, size = _decoded_picture(each, share)
        elif each.frames:
            image, size = _video_of(each, of_video // len(each.frames))
        else:
            image, size = _decoded_video(each, each.video, of_video), 0
        pixels += size
        if pixels > MAX_REQUEST_PIXELS:
            raise _too_many(each, pixels)
        made.append(image)
    return tuple(made)


def _pictures(image: EncodedImage) -> tuple[EncodedImage, ...]:
    if image.video is None:
        return (image,)
    return image.frames


def _decoded_picture(image: EncodedImage, most: int) -> tuple[Image, int]:
    with _value_errors_of(image):
        return _reduced_image(_file_of(image), most)


def _decoded_video(image: EncodedImage, sampling: VideoSampling, most: int) -> Image:
    # Imported here: few requests have videos.
    from calculators.images.media.video import decode_video

    with _value_errors_of(image):
        return decode_video(_file_of(image), sampling, most)


def _file_of(image: EncodedImage) -> bytes:
    return decoded(image.data) if image.is_base64 else image.data


@contextmanager
def _value_errors_of(image: EncodedImage) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise image_error(image.param, str(error)) from None


def _video_of(video: EncodedImage, most: int) -> tuple[Image, int]:
    """Make a video of its pictures, each of ``most`` pixels at most; return their pixels too."""
    assert video.video is not None
    made = [_decoded_picture(frame, most) for frame in video.frames]
    first = made[0][0]
    for frame, (image, _) in zip(video.frames, made, strict=True):
        if (image.width, image.height) != (first.width, first.height):
            raise image_error(frame.param, "the frames of a video have one size; this is another")
    pixels = b"".join(image.pixels for image, _ in made)
    whole = Image(first.height, first.width, pixels, video.video.fps)
    return whole, sum(size for _, size in made)


def _too_many(image: EncodedImage, pixels: int) -> RequestError:
    return image_error(
        image.param,
        f"with this one the images have {pixels} pixels; {MAX_REQUEST_PIXELS} are the maximum of "
        "a request",
    )


def _reduced_image(data: bytes, most: int) -> tuple[Image, int]:
    """Decode an image, and reduce it to ``most`` pixels; return the file's number of pixels too."""
    image = rgb_of(open_picture(data))
    pixels = image.width * image.height
    factor = math.ceil(math.sqrt(pixels / most))
    if factor > 1:
        # A side of a narrow picture is not reduced to nothing.
        image = image.reduce((min(factor, image.width), min(factor, image.height)))
    return Image(image.height, image.width, image.tobytes()), pixels


def decode_image(data: bytes) -> Image:
    """Decode the first picture of a file, rotated by its EXIF data, on white where transparent.

    Raises:
        ValueError: as `open_picture`.
    """
    image = rgb_of(open_picture(data))
    return Image(image.height, image.width, image.tobytes())


def open_picture(data: bytes) -> Any:
    """Return the first picture of a file as Pillow's, rotated by its EXIF data.

    Raises:
        ValueError: the format is not supported, or the image is broken or too large. The text
            leaves out the decoder's own, which may reveal the content of memory.
    """
    if not data:
        raise ValueError("there is no data")
    if len(data) > MAX_IMAGE_BYTES:
        raise ValueError(f"the image is larger than {MAX_IMAGE_BYTES} bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image: Any = Pillow.open(io.BytesIO(data), formats=FORMATS)
        except MemoryError:
            raise
        except Exception:
            raise ValueError(_what_it_is(data)) from None
        _check_size(*image.size)
        if image.format == "JPEG":
            _check_scans(data.count(_SCAN), image.width * image.height)
        with _broken_is_value_error():
            image.load()
            return ImageOps.exif_transpose(image)


def rgb_of(image: Any) -> Any:
    """Return a picture of Pillow's in RGB, on white where it is transparent.

    Raises:
        ValueError: it is broken.
    """
    with warnings.catch_warnings(), _broken_is_value_error():
        warnings.simplefilter("ignore")
        return _rgb(image)


@contextmanager
def _broken_is_value_error() -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except Exception:
        raise ValueError("the image is broken, or a part of it is missing") from None


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"the image has {width} x {height} pixels; {MAX_PIXELS} in all are the maximum"
        )
    if max(width, height) > MAX_RATIO * min(width, height):
        raise ValueError(
            f"the image of {width} x {height} pixels is too narrow: one side may be "
            f"{MAX_RATIO} times the other at most"
        )


def _check_scans(scans: int, pixels: int) -> None:
    if scans > 1 and scans * pixels > MAX_SCANNED_PIXELS:
        raise ValueError(
            f"the JPEG has {scans} scans of {pixels} pixels; {MAX_SCANNED_PIXELS} pixels in all "
            "are the maximum"
        )


def _rgb(image: Any) -> Any:
    if image.mode in _SIXTEEN_BITS:
        # Pillow would clip at 255.
        grey = np.asarray(image).astype(np.int64) >> 8
        return Pillow.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        page = Pillow.new("RGB", image.size, _WHITE)
        page.paste(image, mask=image.getchannel("A"))
        return page
    return image.convert("RGB")


def _what_it_is(data: bytes) -> str:
    start = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<") and b"<svg" in start:
        return f"SVG is not read; send the picture as {_NAMES}"
    return f"the data is not a {_NAMES} image"
