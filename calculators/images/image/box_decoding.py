"""Decoding of a detector's raw numbers into boxes and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError

Floats = npt.NDArray[np.float32]

#: The order of a raw box's numbers, as y, x, height, width; and whether keypoints are y, x.
_ORDERS = {"YXHW": ((0, 1, 2, 3), True), "XYWH": ((1, 0, 3, 2), False), "XYXY": (None, False)}
_LOWEST = np.float32(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class BoxDecoding:
    """The layout and scales of a model's boxes; the fields are those of the options.

    Source: MediaPipe ``calculators/tensor/tensors_to_detections_calculator.cc``.
    """

    num_coords: int
    box_coord_offset: int
    num_keypoints: int
    keypoint_coord_offset: int
    x_scale: float
    y_scale: float
    w_scale: float
    h_scale: float
    apply_exponential_on_box_size: bool
    box_format: str

    @classmethod
    def of(cls, options: Any, box_format: str) -> BoxDecoding:
        names = [name for name in cls.__slots__ if name != "box_format"]
        return cls(box_format=box_format, **{name: getattr(options, name) for name in names})

    def boxes(self, raw: Floats, anchors: Floats, rows: npt.NDArray[np.intp]) -> Floats:
        """Return (m, num_coords): ymin, xmin, ymax, xmax, and keypoints as x, y at their offset.

        Args:
            raw: (n, num_coords).
            anchors: (n or more, 4): y and x of the centre, height, width.
            rows: (m,): the boxes to decode.

        Raises:
            ImageError: there are too few anchors, or a scale is not set.
        """
        scales = np.array([self.y_scale, self.x_scale, self.h_scale, self.w_scale], np.float32)
        if not scales.all():
            raise ImageError(
                "raw boxes need x_scale, y_scale, w_scale and h_scale, which they are divided by; "
                "at least one is not given, or 0"
            )
        if len(anchors) < len(raw):
            raise ImageError(f"{len(raw)} boxes need as many anchors; there are {len(anchors)}")
        raw, anchors = raw[rows], anchors[rows]
        start = self.box_coord_offset
        numbers = raw[:, start : start + 4]
        centre: Floats
        extent: Floats
        order, is_yx = _ORDERS[self.box_format]
        if order is None:
            first, second = numbers[:, [1, 0]], numbers[:, [3, 2]]
            centre, extent = (second - first) * np.float32(0.5), second + first
        else:
            ordered = numbers[:, order]
            centre, extent = ordered[:, :2], ordered[:, 2:]
        centre = centre / scales[:2] * anchors[:, 2:] + anchors[:, :2]
        extent = extent / scales[2:]
        if self.apply_exponential_on_box_size:
            with np.errstate(over="ignore"):
                extent = np.exp(extent)
        extent = extent * anchors[:, 2:]
        found = np.zeros_like(raw)
        found[:, :2], found[:, 2:4] = centre - extent / 2, centre + extent / 2
        at, stop = self.keypoint_coord_offset, self.keypoint_coord_offset + 2 * self.num_keypoints
        points = raw[:, at:stop].reshape(len(raw), self.num_keypoints, 2)
        if is_yx:
            points = points[:, :, ::-1]
        placed = points / scales[1::-1] * anchors[:, np.newaxis, 3:1:-1]
        placed += anchors[:, np.newaxis, 1::-1]
        found[:, at:stop] = placed.reshape(len(raw), stop - at)
        return found


def top_classes(
    raw: Floats, allowed: npt.NDArray[np.bool_], *, sigmoid: bool, clipping: float | None
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The highest score of each box and its class, -1 where no class is allowed.

    Args:
        raw: (n, classes).
        allowed: one per class.
        sigmoid: turn the scores into probabilities with the logistic function.
        clipping: first clip the scores to the range from -clipping to clipping.
    """
    scores: npt.NDArray[Any] = raw
    best: Floats
    if sigmoid:
        if clipping is not None:
            limit = np.float32(clipping)
            scores = np.minimum(np.maximum(scores, -limit), limit)
        with np.errstate(over="ignore"):
            scores = 1 / (1 + np.exp(-scores))
    scores = np.where(allowed & ~np.isnan(scores), scores, _LOWEST)
    if scores.shape[1] == 1:
        best = scores[:, 0]
        return best, np.where(best > _LOWEST, 0, -1)
    classes = scores.argmax(axis=1)
    best = scores[np.arange(len(scores)), classes]
    return best, np.where(best > _LOWEST, classes, -1)


def anchor_array(anchors: list[Any]) -> Floats:
    """Return mediapipe.Anchor messages as (n, 4): y and x of the centre, height, width."""
    found = np.empty((len(anchors), 4), np.float32)
    for row, anchor in zip(found, anchors, strict=True):
        row[:] = anchor.y_center, anchor.x_center, anchor.h, anchor.w
    return found
