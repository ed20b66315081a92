"""Overlap of boxes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.image.detection_list import RELATIVE_BOUNDING_BOX
from calculators.image.image_error import ImageError

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
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    own = np.prod(box[2:] - box[:2])
    if kind == JACCARD:
        around = np.maximum(boxes[:, 2:], box[2:]) - np.minimum(boxes[:, :2], box[:2])
        whole = np.prod(around, axis=1)
    elif kind == MODIFIED_JACCARD:
        whole = np.full(len(boxes), own)
    else:
        whole = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + own - shared
    positive = whole > 0
    found: Floats = np.where(positive, shared / np.where(positive, whole, 1), 0).astype(np.float32)
    return found


def relative_box(detection: Any, size: tuple[int, int] | None) -> Floats:
    """(4,): xmin, ymin, xmax, ymax of a mediapipe.Detection, in fractions of the image.

    Args:
        size: width and height of the image in pixels, if it is known.

    Raises:
        ImageError: the detection has no box, or one in pixels and ``size`` is not known.
    """
    location = detection.location_data
    if location.format == RELATIVE_BOUNDING_BOX:
        box = location.relative_bounding_box
        scale = np.ones(4, np.float32)
    elif location.format == _BOUNDING_BOX and size is not None:
        box = location.bounding_box
        scale = np.array([*size, *size], np.float32)
    else:
        raise ImageError(
            "a detection has no RELATIVE_BOUNDING_BOX; a BOUNDING_BOX, in pixels, needs the input "
            "stream IMAGE, which says how large the image is"
        )
    corners = [box.xmin, box.ymin, box.xmin + box.width, box.ymin + box.height]
    found: Floats = np.array(corners, np.float32) / scale
    return found
