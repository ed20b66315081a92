"""Scaling an image, in the modes of ImageTransformationCalculator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError
from calculators.images.image.opencv import opencv

# ScaleMode.Mode
STRETCH: Final = 1
FIT: Final = 2

#: Limit of an output: a wrong number, or a client's, must not exhaust the memory.
_MOST_PIXELS: Final = 100_000_000


def size_of(value: Sequence[Any]) -> tuple[int, int]:
    """Width and height from a packet.

    Raises:
        ImageError: it is not two whole numbers.
    """
    numbers = [number for number in value if isinstance(number, int) and number is not True]
    if len(value) < 2 or len(numbers) != len(value):
        raise ImageError("OUTPUT_DIMENSIONS is two whole numbers, width and height in pixels")
    return numbers[0], numbers[1]


def scaled(
    image: npt.NDArray[Any],
    size: tuple[int, int],
    *,
    mode: int,
    is_nearest: bool,
    padding: tuple[int, int, int] | None,
) -> npt.NDArray[Any]:
    """The image at ``size``, width and height; without STRETCH and FIT at the size that fits.

    Args:
        image: (height, width) or (height, width, channels).
        is_nearest: take the nearest pixels rather than means of them.
        padding: the colour of FIT's border; None repeats the outermost pixels.

    Raises:
        ImageError: the result is too large, or nothing would be left of the image.
    """
    check_size(size)
    width, height = size
    own_height, own_width = image.shape[:2]
    if mode == STRETCH:
        is_smaller = own_width > width and own_height > height
        return _resized(image, size, is_nearest, is_smaller)
    # In float32, as in MediaPipe: with float64 a side would be rounded otherwise here and there.
    scale = min(
        np.float32(width) / np.float32(own_width), np.float32(height) / np.float32(own_height)
    )
    fitting = (_rounded(own_width * scale), _rounded(own_height * scale))
    if min(fitting) == 0:
        raise ImageError(
            f"an image of {own_width}x{own_height} pixels cannot be scaled to fit "
            f"{width}x{height}: nothing would be left of its shorter side"
        )
    found = _resized(image, fitting, is_nearest, bool(scale < 1))
    if mode != FIT:
        return found
    cv2 = opencv()
    top, left = (height - fitting[1]) // 2, (width - fitting[0]) // 2
    border = cv2.BORDER_REPLICATE if padding is None else cv2.BORDER_CONSTANT
    bordered: npt.NDArray[Any] = cv2.copyMakeBorder(
        found,
        top,
        height - fitting[1] - top,
        left,
        width - fitting[0] - left,
        border,
        value=padding or (0, 0, 0),
    )
    return bordered


def check_size(size: tuple[int, int]) -> None:
    """Refuse an output that is too large for memory.

    Raises:
        ImageError: it has more than 100 million pixels.
    """
    if size[0] * size[1] > _MOST_PIXELS:
        raise ImageError(
            f"the output would be {size[0]}x{size[1]}; it can have at most {_MOST_PIXELS} pixels"
        )


def letterbox_padding(
    before: tuple[int, int], after: tuple[int, int]
) -> tuple[float, float, float, float]:
    """Return the border around an image of size ``before``: left, top, right, bottom, fractions."""
    own, wanted = np.float32(before[0] / before[1]), np.float32(after[0] / after[1])
    if own < wanted:
        beside = float((1 - own / wanted) / 2)
        return (beside, 0.0, beside, 0.0)
    above = float((1 - wanted / own) / 2)
    return (0.0, above, 0.0, above)


def _resized(
    image: npt.NDArray[Any], size: tuple[int, int], is_nearest: bool, is_smaller: bool
) -> npt.NDArray[Any]:
    cv2 = opencv()
    how = cv2.INTER_NEAREST if is_nearest else cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
    found: npt.NDArray[Any] = cv2.resize(image, size, interpolation=how)
    return found


def _rounded(value: Any) -> int:
    """Return the nearest whole number, halves up; ``value`` is not negative."""
    return math.floor(float(value) + 0.5)
