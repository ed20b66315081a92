"""JPEG and PNG: decoding into an `ImageFrame` within limits, and encoding."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame, format_of
from calculators.images.image.opencv import opencv

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
    # The beginnings of a JPEG, a PNG and a data URL in Base64.
    if start.startswith((b"/9j/", b"iVBORw0KGgo", b"data:image/")):
        raise ImageError(
            "the image is Base64; the bytes of the file are expected: in a KServe request they are "
            "binary data, as clients send BYTES by default"
        )
    what = (
        "the image is empty" if len(data) == 0 else "the bytes are not an image that is known here"
    )
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


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Limits of the images that clients may have decoded.

    Attributes:
        encoded_bytes: maximum size of the JPEG or PNG, in bytes.
        pixels: maximum of width times height. A few kilobytes of PNG can hold billions of equal
            pixels, so this limit bounds the memory; it is checked against the header.
        scanned_pixels: maximum of pixels times scans of a JPEG. A progressive one passes over all
            of its pixels about ten times; a file may have any number of scans of a few bytes.
    """

    encoded_bytes: int = 20_000_000
    pixels: int = 40_000_000
    scanned_pixels: int = 1_000_000_000


#: JPEG's marker of a scan.
_SCAN: Final = b"\xff\xda"
DEFAULT_LIMITS: Final = ImageLimits()


def decode_image(
    content: bytes | memoryview,
    *,
    apply_orientation: bool = True,
    limits: ImageLimits = DEFAULT_LIMITS,
) -> ImageFrame:
    """Return the image that a JPEG or PNG holds: gray, RGB or (of a PNG) RGBA, 8 or 16 bits.

    Args:
        content: the file's bytes.
        apply_orientation: turn the image as its EXIF data says, and drop alpha, as OpenCV does by
            default.
        limits: checked before anything is decoded.

    Raises:
        ImageError: ``content`` is not a JPEG or PNG, is damaged, or exceeds the limits.
        GraphError: OpenCV is not installed.
    """
    size = len(memoryview(content))
    if size > limits.encoded_bytes:
        raise ImageError(
            f"the encoded image has {size} bytes; at most {limits.encoded_bytes} are taken"
        )
    header = read_header(content)
    if header.width == 0 or header.height == 0:
        raise ImageError(f"the {header.kind} has no pixels: it is {header.width}x{header.height}")
    if header.width * header.height > limits.pixels:
        raise ImageError(
            f"the {header.kind} is {header.width}x{header.height}; "
            f"at most {limits.pixels} pixels are taken"
        )
    if header.kind == "JPEG":
        _check_scans(content, header.width * header.height, limits)
    cv2 = opencv()
    flags = cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH if apply_orientation else cv2.IMREAD_UNCHANGED
    try:
        decoded = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    except cv2.error:
        decoded = None
    if decoded is None:
        raise ImageError(f"the {header.kind} cannot be decoded: it is damaged or cut off")
    return _frame(decoded, cv2)


def _check_scans(content: bytes | memoryview, pixels: int, limits: ImageLimits) -> None:
    # Within the data of a scan, a byte of FF is followed by 00 or by the number of a restart.
    scans = bytes(content).count(_SCAN)
    if scans > 1 and scans * pixels > limits.scanned_pixels:
        raise ImageError(
            f"the JPEG has {scans} scans of {pixels} pixels; at most {limits.scanned_pixels} "
            "pixels in all are taken"
        )


def encode_image(frame: ImageFrame, *, quality: int, kind: str = "JPEG") -> bytes:
    """Return the image as a JPEG of ``quality`` 0 to 100, or as a "PNG".

    Raises:
        ImageError: ``kind`` cannot hold the image's format.
    """
    cv2 = opencv()
    turned = _REVERSED.get(frame.image_format)
    if turned is None or (kind == "JPEG" and frame.byte_depth != 1):
        raise ImageError(f"an image of the format {frame.image_format.name} cannot be a {kind}")
    pixels = cv2.cvtColor(frame.pixels, getattr(cv2, turned)) if turned else frame.pixels
    parameters = [cv2.IMWRITE_JPEG_QUALITY, quality] if kind == "JPEG" else []
    is_written, content = cv2.imencode(".jpg" if kind == "JPEG" else ".png", pixels, parameters)
    if not is_written:
        raise ImageError(f"the image could not be written as {kind}")
    return bytes(content)


#: The conversion to OpenCV's order of channels, blue first; "" if none is needed.
_REVERSED: Final = {
    ImageFormat.GRAY8: "",
    ImageFormat.GRAY16: "",
    ImageFormat.SRGB: "COLOR_RGB2BGR",
    ImageFormat.SRGB48: "COLOR_RGB2BGR",
    ImageFormat.SRGBA: "COLOR_RGBA2BGRA",
    ImageFormat.SRGBA64: "COLOR_RGBA2BGRA",
}


def _frame(decoded: npt.NDArray[Any], cv2: Any) -> ImageFrame:
    channels = 1 if decoded.ndim == 2 else decoded.shape[2]
    if channels == 3:
        decoded = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    elif channels == 4:
        decoded = cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGBA)
    return ImageFrame.owning(format_of(decoded.dtype, channels), decoded)
