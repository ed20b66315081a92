"""`ImageFormat`: the meaning of a pixel's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from calculators.images.image.image_error import ImageError


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


class _Layout(NamedTuple):
    channels: int
    dtype: np.dtype[Any]


_BYTE, _SHORT, _FLOAT = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.float32)
_LAYOUTS: Final[Mapping[ImageFormat, _Layout]] = MappingProxyType(
    {
        ImageFormat.SRGB: _Layout(3, _BYTE),
        ImageFormat.SRGBA: _Layout(4, _BYTE),
        ImageFormat.GRAY8: _Layout(1, _BYTE),
        ImageFormat.GRAY16: _Layout(1, _SHORT),
        ImageFormat.SRGB48: _Layout(3, _SHORT),
        ImageFormat.SRGBA64: _Layout(4, _SHORT),
        ImageFormat.VEC32F1: _Layout(1, _FLOAT),
        ImageFormat.LAB8: _Layout(3, _BYTE),
        ImageFormat.SBGRA: _Layout(4, _BYTE),
        ImageFormat.VEC32F2: _Layout(2, _FLOAT),
        ImageFormat.VEC32F4: _Layout(4, _FLOAT),
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
    """The format of an array of shape (height, width, channels).

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
        raise ImageError(
            f"no image with elements of type {dtype} has {channels} channels; "
            f"it has {', '.join(known[:-1])} or {known[-1]}"
        )
    return found
