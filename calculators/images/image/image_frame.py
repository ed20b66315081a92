"""`ImageFrame`: an image in a packet, its `ImageFormat`, and `ImageError` for what is neither."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from graph_runtime import Code, GraphError


class ImageError(GraphError, ValueError):
    """The bytes are not an image, or the image has an unsupported size or format.

    The text may be sent to the client. The code is INVALID_ARGUMENT.
    """

    code = Code.INVALID_ARGUMENT


class ImageFormat(IntEnum):
    """The formats of an `ImageFrame`, with the names and numbers of ``mediapipe.ImageFormat``.

    Source: MediaPipe ``framework/formats/image_format.proto``.
    """

    SRGB = 1
    SRGBA = 2
    GRAY8 = 3
    GRAY16 = 4
    SRGB48 = 7
    SRGBA64 = 8
    VEC32F1 = 9
    LAB8 = 10
    SBGRA = 11
    VEC32F2 = 12
    VEC32F4 = 13

    @property
    def channels(self) -> int:
        """Numbers per pixel."""
        return _LAYOUTS[self].channels

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of each number: uint8, uint16 or float32."""
        return _LAYOUTS[self].dtype

    @property
    def byte_depth(self) -> int:
        """Bytes per number."""
        return self.dtype.itemsize


class _PixelLayout(NamedTuple):
    channels: int
    dtype: np.dtype[Any]


_BYTE, _SHORT, _FLOAT = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.float32)
_LAYOUTS: Final[Mapping[ImageFormat, _PixelLayout]] = MappingProxyType(
    {
        ImageFormat.SRGB: _PixelLayout(3, _BYTE),
        ImageFormat.SRGBA: _PixelLayout(4, _BYTE),
        ImageFormat.GRAY8: _PixelLayout(1, _BYTE),
        ImageFormat.GRAY16: _PixelLayout(1, _SHORT),
        ImageFormat.SRGB48: _PixelLayout(3, _SHORT),
        ImageFormat.SRGBA64: _PixelLayout(4, _SHORT),
        ImageFormat.VEC32F1: _PixelLayout(1, _FLOAT),
        ImageFormat.LAB8: _PixelLayout(3, _BYTE),
        ImageFormat.SBGRA: _PixelLayout(4, _BYTE),
        ImageFormat.VEC32F2: _PixelLayout(2, _FLOAT),
        ImageFormat.VEC32F4: _PixelLayout(4, _FLOAT),
    }
)

#: The format of a tensor of each type and number of channels. Signed integers and half floats are
#: reinterpreted by their bits, as in OpenVINO Model Server.
_BY_SIZE: Final[Mapping[str, Mapping[int, ImageFormat]]] = MappingProxyType(
    {
        "8": {1: ImageFormat.GRAY8, 3: ImageFormat.SRGB, 4: ImageFormat.SRGBA},
        "16": {1: ImageFormat.GRAY16, 3: ImageFormat.SRGB48, 4: ImageFormat.SRGBA64},
        "float": {1: ImageFormat.VEC32F1, 2: ImageFormat.VEC32F2, 4: ImageFormat.VEC32F4},
    }
)
_SIZES: Final[Mapping[str, str]] = MappingProxyType(
    {"uint8": "8", "int8": "8", "uint16": "16", "int16": "16", "float16": "16", "float32": "float"}
)


def format_of(dtype: np.dtype[Any], channels: int) -> ImageFormat:
    """Return the format of an array of shape (height, width, channels).

    Raises:
        ImageError: no format has such pixels.

    Source: OpenVINO Model Server, the tag IMAGE of its KServe graphs.
    """
    size = _SIZES.get(dtype.name)
    if size is None:
        raise ImageError(
            f"no image has elements of type {dtype}; they are 8 or 16 bits wide, or float32"
        )
    found = _BY_SIZE[size].get(channels)
    if found is None:
        known = [str(number) for number in _BY_SIZE[size]]
        meant = "; an RGB image is UINT8, from 0 to 255" if (size, channels) == ("float", 3) else ""
        raise ImageError(
            f"no image with elements of type {dtype} has {channels} channels; "
            f"it has {', '.join(known[:-1])} or {known[-1]}{meant}"
        )
    return found


@final
class ImageFrame:
    """A read-only image: rows of pixels, the first row on top.

    It has the attributes of ``mediapipe.ImageFrame``. MediaPipe's C++ has a second class, Image,
    which can also live on a GPU; here an ImageFrame stands for both.

    Args:
        image_format: the meaning of the pixels.
        data: (height, width, channels), or (height, width) for one channel, of the format's dtype.
            Copied if it could still be written to.

    Raises:
        ImageError: the array does not fit the format, or has no pixels.
    """

    __slots__ = ("_pixels", "image_format")

    def __init__(self, image_format: ImageFormat, data: npt.NDArray[Any]) -> None:
        pixels = _checked(image_format, data)
        if pixels.flags.writeable or not pixels.flags.c_contiguous:
            pixels = pixels.copy()
            pixels.flags.writeable = False
        self._pixels = pixels
        self.image_format = image_format

    @classmethod
    def owning(cls, image_format: ImageFormat, data: npt.NDArray[Any]) -> ImageFrame:
        """Make a frame without a copy. The caller must not write to ``data`` afterwards."""
        view = np.ascontiguousarray(data).view()
        view.flags.writeable = False
        return cls(image_format, view)

    @classmethod
    def of_tensor(cls, array: npt.NDArray[Any]) -> ImageFrame:
        """Return the image in a tensor of shape (height, width, channels).

        8 bits: GRAY8, SRGB, SRGBA. 16 bits: GRAY16, SRGB48, SRGBA64. float32 with 1, 2 or 4
        channels: VEC32F1, VEC32F2, VEC32F4.

        Raises:
            ImageError: no format has this shape or type; the text says what would be right.
        """
        if array.ndim != 3:
            raise ImageError(
                f"an image has 3 dimensions, height, width and channels, not {array.ndim}"
            )
        image_format = format_of(array.dtype, array.shape[2])
        return cls(image_format, array.view(image_format.dtype))

    @property
    def width(self) -> int:
        """Pixels per row."""
        return int(self._pixels.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self._pixels.shape[0])

    @property
    def channels(self) -> int:
        """Numbers per pixel."""
        return self.image_format.channels

    @property
    def byte_depth(self) -> int:
        """Bytes per number."""
        return self.image_format.byte_depth

    @property
    def pixels(self) -> npt.NDArray[Any]:
        """The image itself, (height, width, channels), read-only."""
        return self._pixels

    def numpy_view(self) -> npt.NDArray[Any]:
        """The image itself, read-only: (height, width) for one channel, as MediaPipe has it."""
        return self._pixels[:, :, 0] if self.channels == 1 else self._pixels

    def is_empty(self) -> bool:
        """False: an image without pixels cannot be made."""
        return False

    def is_contiguous(self) -> bool:
        """True: there are no gaps between rows."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImageFrame):
            return NotImplemented
        return self.image_format == other.image_format and np.array_equal(
            self._pixels, other._pixels
        )

    __hash__ = None  # type: ignore[assignment] # as of an array

    def __repr__(self) -> str:
        return f"<ImageFrame {self.image_format.name} {self.width}x{self.height}>"


def _checked(image_format: ImageFormat, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array as (height, width, channels)."""
    channels = image_format.channels
    pixels = data[:, :, np.newaxis] if data.ndim == 2 and channels == 1 else data
    if pixels.ndim != 3 or pixels.shape[2] != channels:
        wanted = "(height, width)" if channels == 1 else f"(height, width, {channels})"
        raise ImageError(
            f"an image of the format {image_format.name} has the shape {wanted}; "
            f"this one has {tuple(data.shape[:8])}"
        )
    if pixels.dtype != image_format.dtype:
        raise ImageError(
            f"an image of the format {image_format.name} has elements of type "
            f"{image_format.dtype}; this one has {pixels.dtype}"
        )
    if pixels.size == 0:
        raise ImageError(
            f"an image has at least one pixel; this one is {data.shape[1]}x{data.shape[0]}"
        )
    return pixels
