"""Boxes that overlap, as one: the mean of them, weighted by their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError
from calculators.images.image.overlap import overlaps

Floats = npt.NDArray[np.float32]


def overlapping(
    boxes: Floats, kind: int, threshold: np.float32
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield the place of each box that overlaps no better one, and of all boxes that it overlaps.

    Args:
        boxes: (n, 4): xmin, ymin, xmax, ymax, in fractions of the image, the best first.
        kind: the measure of overlap, see `overlaps`.
        threshold: the overlap above which boxes become one.

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """
    left = np.arange(len(boxes))
    while len(left):
        best = int(left[0])
        alike = overlaps(boxes[left], boxes[best], kind) > threshold
        yield best, left[alike]
        if not alike.any():
            break  # as MediaPipe: the box does not even overlap itself enough
        left = left[~alike]


def set_mean(found: Any, detections: Sequence[Any], boxes: Floats, scores: Floats) -> None:
    """Give a detection the mean box and keypoints of others, weighted by their scores.

    Args:
        found: a mediapipe.Detection, with a relative box; it is changed.
        detections: with as many keypoints, or more.
        boxes: (n, 4), of ``detections``: xmin, ymin, xmax, ymax.
        scores: (n,), likewise.

    Raises:
        ImageError: a detection has fewer keypoints.
    """
    weights = scores / scores.sum()
    xmin, ymin, xmax, ymax = (weights @ boxes).tolist()
    location = found.location_data
    box = location.relative_bounding_box
    box.xmin, box.ymin = xmin, ymin
    box.width, box.height = xmax - xmin, ymax - ymin
    all_points = [detection.location_data.relative_keypoints for detection in detections]
    if any(len(points) < len(location.relative_keypoints) for points in all_points):
        raise ImageError("detections that overlap have different numbers of keypoints")
    shares: list[float] = weights.tolist()  # a message takes Python's numbers much faster
    for place, keypoint in enumerate(location.relative_keypoints):
        weighed = [(w, points[place]) for w, points in zip(shares, all_points, strict=True)]
        keypoint.x = sum(w * point.x for w, point in weighed)
        keypoint.y = sum(w * point.y for w, point in weighed)
