"""`RegionSampler`: the pixels of a region, at the size that a model wants."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.opencv import opencv
from calculators.images.image.region import Region

Image = npt.NDArray[Any]

#: Steps between two pixels at which OpenCV samples, and the bits of their number.
_STEPS: Final = 32
_BITS: Final = 5
#: Pixels of an image for one of the result, up to which a region is copied first: of more, most are
#: not needed.
_MOST_COPIED: Final = 4
#: Pixels up to which the places of a region are kept.
_MOST_KEPT: Final = 1 << 20


class RegionSampler:
    """Samples regions of images by bilinear interpolation, as MediaPipe does.

    The places of a region that comes again, as the whole image does in every frame of a video, are
    kept: finding them takes longer than sampling. The pixels are the same.

    Attributes:
        size: width and height of what `sample` returns, in pixels.
    """

    def __init__(self, width: int, height: int, border: int) -> None:
        """``border``: OpenCV's mode beyond the image."""
        self.size = (width, height)
        self._border = border
        self._region: Region | None = None
        self._places: tuple[Image, Image] | None = None

    def sample(self, image: Image, region: Region) -> Image:
        """Return the region's pixels, (height, width, channels), as the image's type."""
        cv2 = opencv()
        width, height = self.size
        found: Image
        if region == self._region and self._places is not None:
            found = cv2.remap(image, *self._places, cv2.INTER_LINEAR, borderMode=self._border)
            return found
        corners = np.array([[0, height], [0, 0], [width, 0], [width, height]], np.float32)
        in_image = region.corners()
        matrix = cv2.getPerspectiveTransform(in_image, corners)
        if region == self._region and width * height <= _MOST_KEPT:
            self._places = _places(cv2.invert(matrix)[1], width, height)
        elif region != self._region:
            self._region, self._places = region, None
        part, left, top = _part(image, in_image)
        if part.shape[0] * part.shape[1] <= _MOST_COPIED * width * height:
            # A processor reads ahead along rows: pixel by pixel, as a turned region has them, it
            # would wait for memory each time.
            image = np.ascontiguousarray(part)
            matrix[:, 2] += matrix[:, 0] * left + matrix[:, 1] * top
        found = cv2.warpPerspective(
            image, matrix, self.size, flags=cv2.INTER_LINEAR, borderMode=self._border
        )
        return found


def _part(image: Image, corners: npt.NDArray[np.float32]) -> tuple[Image, int, int]:
    """The part of an image that a region needs, and the part's left and top."""
    ends = [each.tolist() for each in (corners.min(axis=0), corners.max(axis=0))]
    slices, first = [], []
    for low, high, most in zip(*ends, image.shape[1::-1], strict=True):
        # With the neighbours of the outermost pixels.
        begin = min(max(math.floor(low) - 2, 0), most - 1)
        slices.append(slice(begin, min(max(math.ceil(high) + 3, begin + 1), most)))
        first.append(begin)
    return image[slices[1], slices[0]], first[0], first[1]


def _places(matrix: Image, width: int, height: int) -> tuple[Image, Image]:
    """Whole pixels (height, width, 2) and fractions (height, width), as ``cv2.remap`` takes them.

    Args:
        matrix: (3, 3), from pixels of the result to pixels of the image.
    """
    x = np.arange(width, dtype=np.float64)[np.newaxis]
    y = np.arange(height, dtype=np.float64)[:, np.newaxis]
    at_x, at_y, depth = (row[0] * x + row[1] * y + row[2] for row in matrix)
    steps = np.stack([at_x, at_y], axis=-1) * (_STEPS / depth)[..., np.newaxis]
    limit = _STEPS * np.iinfo(np.int16).max
    whole = np.rint(np.clip(steps, -limit, limit)).astype(np.int32)
    part = whole & (_STEPS - 1)
    fractions = part[..., 1] * _STEPS + part[..., 0]
    return (whole >> _BITS).astype(np.int16), fractions.astype(np.uint16)
