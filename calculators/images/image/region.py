"""`Region`: the part of an image that a model is to see."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle in an image, in pixels; ``rotation`` is clockwise, in radians.

    Source: MediaPipe ``calculators/tensor/image_to_tensor_utils.cc``.
    """

    center_x: float
    center_y: float
    width: float
    height: float
    rotation: float = 0.0

    @classmethod
    def whole(cls, width: int, height: int) -> Region:
        """The whole image, of ``width`` by ``height`` pixels."""
        return cls(0.5 * width, 0.5 * height, width, height)

    @classmethod
    def of(cls, rect: Any, width: int, height: int) -> Region:
        """The region of a mediapipe.NormalizedRect in an image of that size, in pixels.

        Raises:
            ImageError: the rectangle has no area, or its numbers are not finite.
        """
        found = cls(
            rect.x_center * width,
            rect.y_center * height,
            rect.width * width,
            rect.height * height,
            rect.rotation,
        )
        numbers = (found.center_x, found.center_y, found.width, found.height, found.rotation)
        if not all(map(math.isfinite, numbers)) or found.width <= 0 or found.height <= 0:
            raise ImageError(
                f"NORM_RECT needs a width and height above 0 and finite numbers; its width is "
                f"{rect.width:g} and its height {rect.height:g}"
            )
        return found

    def padded(self, width: int, height: int) -> tuple[Region, tuple[float, float, float, float]]:
        """A region with the aspect ratio of a tensor of that size, and how much is padding.

        The padding is left, top, right and bottom, as fractions of the tensor.
        """
        wanted, own = height / width, self.height / self.width
        if wanted > own:
            vertical = (1 - own / wanted) / 2
            return replace(self, height=self.width * wanted), (0.0, vertical, 0.0, vertical)
        horizontal = (1 - wanted / own) / 2
        return replace(self, width=self.height / wanted), (horizontal, 0.0, horizontal, 0.0)

    def corners(self) -> npt.NDArray[np.float32]:
        """Return (4, 2), x and y: bottom left, top left, top right, bottom right, as in OpenCV."""
        a, b = math.sin(self.rotation) / 2, math.cos(self.rotation) / 2
        x, y, width, height = self.center_x, self.center_y, self.width, self.height
        bottom_left = (x - a * height - b * width, y + b * height - a * width)
        top_left = (x + a * height - b * width, y - b * height - a * width)
        opposite = [(2 * x - cx, 2 * y - cy) for cx, cy in (bottom_left, top_left)]
        return np.array([bottom_left, top_left, *opposite], np.float32)

    def matrix(self, width: int, height: int) -> tuple[float, ...]:
        """Return the matrix from points in the region to points in the image of that size.

        It has 16 numbers, row by row. Points are fractions of the region and of the image.
        """
        a, b = self.width, self.height
        c, d = math.cos(self.rotation), math.sin(self.rotation)
        e, f = self.center_x, self.center_y
        g, h = 1 / width, 1 / height
        return (
            *(a * c * g, -b * d * g, 0.0, (-0.5 * a * c + 0.5 * b * d + e) * g),
            *(a * d * h, b * c * h, 0.0, (-0.5 * b * c - 0.5 * a * d + f) * h),
            *(0.0, 0.0, a * g, 0.0),
            *(0.0, 0.0, 0.0, 1.0),
        )
