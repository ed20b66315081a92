"""mediapipe.Detection messages from arrays of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import message

# LocationData.Format
RELATIVE_BOUNDING_BOX = 2


def detections(
    scores: Sequence[Sequence[float]],
    classes: Sequence[Sequence[int]],
    boxes: npt.NDArray[np.float32],
    keypoints: npt.NDArray[np.float32],
    *,
    flips: bool,
) -> list[Any]:
    """One message per box.

    Args:
        scores, classes: per box, lists of equal length.
        boxes: (n, 4): ymin, xmin, ymax, xmax, in fractions of the image.
        keypoints: (n, m, 2), x and y.
        flips: True if the origin of the detections is at the bottom left.
    """
    kind = message("Detection")
    low, extents = boxes[:, :2].copy(), boxes[:, 2:] - boxes[:, :2]
    if flips:
        low[:, 0] = 1 - boxes[:, 2]
        keypoints = keypoints.copy()
        keypoints[:, :, 1] = 1 - keypoints[:, :, 1]
    # Lists of Python numbers: a message takes them several times faster than NumPy's.
    rows = zip(*(scores, classes, low.tolist(), extents.tolist(), keypoints.tolist()), strict=True)
    found = []
    for of_scores, of_classes, (ymin, xmin), (height, width), points in rows:
        one = kind(score=of_scores, label_id=of_classes)
        location = one.location_data
        location.format = RELATIVE_BOUNDING_BOX
        box = location.relative_bounding_box
        box.xmin, box.ymin, box.width, box.height = xmin, ymin, width, height
        for x, y in points:
            location.relative_keypoints.add(x=x, y=y)
        found.append(one)
    return found


def sensible(boxes: npt.NDArray[np.float32], *, allows_nan: bool = False) -> npt.NDArray[np.bool_]:
    """A mask of the boxes with a width and a height, since a model can predict anything.

    ``boxes`` is (n, 4) or more; the first four numbers are ymin, xmin, ymax, xmax.
    """
    with np.errstate(invalid="ignore"):
        extents = boxes[:, 2:4] - boxes[:, :2]
        if allows_nan:
            return np.logical_not((extents < 0).any(axis=1))
        found: npt.NDArray[np.bool_] = np.all(extents >= 0, axis=1)
        return found
