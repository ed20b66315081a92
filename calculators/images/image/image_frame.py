"""`ImageFrame`: an image in a packet."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError
from calculators.images.image.image_format import ImageFormat, format_of


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
        """The image in a tensor of shape (height, width, channels).

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
    """The array as (height, width, channels)."""
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
