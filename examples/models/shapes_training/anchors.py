"""The boxes that the detector corrects: those of SsdAnchorsCalculator with the graph's options."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .pictures import SIZE, Truth

STRIDES = (8, 16)
MIN_SCALE, MAX_SCALE = 0.2, 0.5
#: The scales of the model's corrections: y, x, height, width.
SCALES = np.array([10.0, 10.0, 5.0, 5.0], np.float32)
PER_PLACE = 2


def anchors() -> npt.NDArray[np.float32]:
    """Return the anchors (n, 4): y and x of the centre, height, width."""
    found: list[tuple[float, float, float, float]] = []
    scales = (MIN_SCALE, MAX_SCALE, 1.0)
    for level, stride in enumerate(STRIDES):
        places = SIZE // stride
        extents = (scales[level], float(np.sqrt(scales[level] * scales[level + 1])))
        found += [
            ((y + 0.5) / places, (x + 0.5) / places, extent, extent)
            for y in range(places)
            for x in range(places)
            for extent in extents
        ]
    return np.array(found, np.float32)


def targets(
    truths: list[Truth], boxes: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the target at each anchor: label (-1 none, -2 ignored), correction."""
    labels = np.full(len(boxes), -1, np.int64)
    corrections = np.zeros((len(boxes), 4), np.float32)
    if not truths:
        return labels, corrections
    corners = np.array([truth[1:] for truth in truths], np.float32)
    overlap = iou(corners_of(boxes), corners)
    best = overlap.argmax(axis=1)
    reach = overlap.max(axis=1)
    labels[reach >= 0.35] = -2
    chosen = reach >= 0.5
    nearest = overlap.argmax(axis=0)  # each shape has at least one anchor
    chosen[nearest] = True
    best[nearest] = np.arange(len(truths))
    labels[chosen] = np.array([truth.label for truth in truths])[best[chosen]]
    wanted = corners[best[chosen]]
    centre, extent = (wanted[:, :2] + wanted[:, 2:]) / 2, wanted[:, 2:] - wanted[:, :2]
    own = boxes[chosen]
    corrections[chosen, :2] = (centre - own[:, :2]) / own[:, 2:] * SCALES[:2]
    corrections[chosen, 2:] = np.log(extent / own[:, 2:]) * SCALES[2:]
    return labels, corrections


def decoded(
    corrections: npt.NDArray[np.float32], boxes: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return the corners (n, 4) of the corrected anchors: ymin, xmin, ymax, xmax."""
    centre = corrections[:, :2] / SCALES[:2] * boxes[:, 2:] + boxes[:, :2]
    extent = np.exp(corrections[:, 2:] / SCALES[2:]) * boxes[:, 2:]
    return np.concatenate([centre - extent / 2, centre + extent / 2], axis=1)


def corners_of(boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)


def iou(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the intersection over union of all boxes in ``a`` and ``b``: (len(a), len(b))."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (a, b)]
    found: npt.NDArray[np.float32] = shared / (areas[0][:, None] + areas[1][None] - shared)
    return found
