"""Boxes that overlap, as one: the mean of them, weighted by their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.image.image_error import ImageError
from calculators.image.overlap import overlaps

Floats = npt.NDArray[np.float32]


def weighted(
    detections: list[Any], boxes: Floats, scores: Floats, kind: int, threshold: float
) -> list[Any]:
    """The best detections, each with the mean box and keypoints of those it overlaps.

    Args:
        detections: mediapipe.Detection messages, the best first; they are changed.
        boxes: (n, 4): xmin, ymin, xmax, ymax, in fractions of the image.
        scores: (n,).
        kind: the measure of overlap, see `overlaps`.
        threshold: the overlap above which boxes become one.

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """
    left = np.arange(len(detections))
    found: list[Any] = []
    while len(left):
        best = int(left[0])
        alike = overlaps(boxes[left], boxes[best], kind) > np.float32(threshold)
        group = left[alike]
        if len(group):
            _set_mean(detections, best, group, boxes, scores)
        found.append(detections[best])
        if not alike.any():
            break  # as MediaPipe: the box does not even overlap itself enough
        left = left[~alike]
    return found


def _set_mean(
    detections: list[Any], best: int, group: npt.NDArray[np.int64], boxes: Floats, scores: Floats
) -> None:
    weights = scores[group] / scores[group].sum()
    xmin, ymin, xmax, ymax = (float(value) for value in weights @ boxes[group])
    location = detections[best].location_data
    box = location.relative_bounding_box
    box.xmin, box.ymin = xmin, ymin
    box.width, box.height = xmax - xmin, ymax - ymin
    all_points = [detections[index].location_data.relative_keypoints for index in group]
    if any(len(points) < len(location.relative_keypoints) for points in all_points):
        raise ImageError("detections that overlap have different numbers of keypoints")
    shares: list[float] = weights.tolist()  # a message takes Python's numbers much faster
    for place, keypoint in enumerate(location.relative_keypoints):
        weighed = [(w, points[place]) for w, points in zip(shares, all_points, strict=True)]
        keypoint.x = sum(w * point.x for w, point in weighed)
        keypoint.y = sum(w * point.y for w, point in weighed)
