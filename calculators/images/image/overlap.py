"""Overlap of boxes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.detection_list import RELATIVE_BOUNDING_BOX
from calculators.images.image.image_error import ImageError

Floats = npt.NDArray[np.float32]

# NonMaxSuppressionCalculatorOptions.OverlapType
JACCARD: Final = 1
MODIFIED_JACCARD: Final = 2
# LocationData.Format
_BOUNDING_BOX = 1


def overlaps(boxes: Floats, box: Floats, kind: int) -> Floats:
    """The area that each box shares with ``box``, as a fraction of the area that ``kind`` names.

    JACCARD: the smallest box around both. MODIFIED_JACCARD: ``box``. Else the union of both.

    Args:
        boxes: (n, 4): xmin, ymin, xmax, ymax.
        box: (4,).

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """
    low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
    shared = _areas(np.maximum(high - low, 0))
    own = (box[2] - box[0]) * (box[3] - box[1])
    if kind == JACCARD:
        whole = _areas(np.maximum(boxes[:, 2:], box[2:]) - np.minimum(boxes[:, :2], box[:2]))
    elif kind == MODIFIED_JACCARD:
        whole = np.full(len(boxes), own)
    else:
        whole = _areas(boxes[:, 2:] - boxes[:, :2]) + own - shared
    found: Floats = np.zeros(len(boxes), np.float32)
    np.divide(shared, whole, out=found, where=whole > 0)
    return found


def _areas(extents: Floats) -> Floats:
    return extents[:, 0] * extents[:, 1]


def relative_box(detection: Any, size: tuple[int, int] | None) -> tuple[float, ...]:
    """xmin, ymin, xmax, ymax of a mediapipe.Detection, in fractions of the image.

    Args:
        size: width and height of the image in pixels, if it is known.

    Raises:
        ImageError: the detection has no box, or one in pixels and ``size`` is not known.
    """
    location = detection.location_data
    if location.format == RELATIVE_BOUNDING_BOX:
        box = location.relative_bounding_box
        xmin, ymin = box.xmin, box.ymin
        return xmin, ymin, xmin + box.width, ymin + box.height
    if location.format == _BOUNDING_BOX and size is not None:
        box, (width, height) = location.bounding_box, size
        right, bottom = box.xmin + box.width, box.ymin + box.height
        return box.xmin / width, box.ymin / height, right / width, bottom / height
    raise ImageError(
        "a detection has no RELATIVE_BOUNDING_BOX; a BOUNDING_BOX, in pixels, needs the input "
        "stream IMAGE, which says how large the image is"
    )
