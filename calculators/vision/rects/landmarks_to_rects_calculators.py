"""Calculators that make boxes and rectangles of landmarks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.vision.landmarks.landmark_ports import take_landmarks
from calculators.vision.landmarks.landmarks import Floats, Landmarks, landmarks_of
from calculators.vision.messages import message_type, normalized_rect
from calculators.vision.rects.rect_ports import SMALLEST, normalize_radians
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_DETECTION = "mediapipe.LandmarksToDetectionCalculatorOptions"
_RELATIVE_BOUNDING_BOX = 2
#: Joints of the palm and the first joints of the fingers, of a hand's 21 landmarks.
_PALM = np.array([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18])
_HAND = 21
#: Wrist, and the roots of the index, middle and ring finger, among `_PALM`.
_WRIST, _INDEX, _MIDDLE, _RING = 0, 4, 6, 8


class LandmarksToDetectionCalculator(Calculator):
    """Makes a detection of landmarks: they are its keypoints, and its box is around them.

    Inputs: NORM_LANDMARKS (`Landmarks`).
    Outputs: DETECTION (mediapipe.Detection): without score and label.
    Options (mediapipe.LandmarksToDetectionCalculatorOptions):
        selected_landmark_indices: repeated; all landmarks unless given.

    ::

        node {
          calculator: "LandmarksToDetectionCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          output_stream: "DETECTION:eyes"
          options {
            [mediapipe.LandmarksToDetectionCalculatorOptions.ext] {
              selected_landmark_indices: [33, 133]
            }
          }
        }

    Source: MediaPipe ``calculators/util/landmarks_to_detection_calculator.cc``.
    """

    options = Options(_DETECTION)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.outputs["DETECTION"].set(message_type("Detection"))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._selected = np.array(self.options.selected_landmark_indices, np.intp)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty():
            return
        points = landmarks_of(cc.inputs["NORM_LANDMARKS"].value).values[:, :2]
        if len(points) == 0:
            raise GraphError("there are no landmarks in the list", code=Code.INVALID_ARGUMENT)
        if len(self._selected):
            if self._selected.max() >= len(points) or self._selected.min() < 0:
                raise GraphError(
                    f"selected_landmark_indices: there are {len(points)} landmarks, so there is no "
                    f"landmark {self._selected.max()}",
                    code=Code.INVALID_ARGUMENT,
                )
            points = points[self._selected]
        cc.outputs["DETECTION"].add(_detection(points), cc.time)


def _detection(points: Floats) -> Any:
    """The mediapipe.Detection of points (n, 2)."""
    low = points.min(axis=0)
    high = np.maximum(points.max(axis=0), np.float32(SMALLEST))
    # One by one, 468 keypoints take half a millisecond.
    wire = _wire(len(points)).copy()
    wire["x"], wire["y"] = points[:, 0], points[:, 1]
    found = message_type("Detection")()
    location = found.location_data
    location.MergeFromString(wire.tobytes())
    location.format = _RELATIVE_BOUNDING_BOX
    box = location.relative_bounding_box
    (box.xmin, box.ymin), (box.width, box.height) = low.tolist(), (high - low).tolist()
    return found


@lru_cache(maxsize=8)
def _wire(count: int) -> npt.NDArray[Any]:
    """The wire form of keypoints without their numbers: each is 12 bytes."""
    fields = [("tag", "u1"), ("length", "u1"), ("x_tag", "u1"), ("x", "<f4")]
    wire = np.zeros(count, np.dtype([*fields, ("y_tag", "u1"), ("y", "<f4")]))
    wire["tag"], wire["length"], wire["x_tag"], wire["y_tag"] = 0x2A, 10, 0x0D, 0x15
    return wire


class HandLandmarksToRectCalculator(Calculator):
    """Makes the turned rectangle around a hand's palm and first joints, fingers upwards.

    Inputs:
        NORM_LANDMARKS (`Landmarks`): 21 of a hand, or 12 of its palm and first joints.
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs: NORM_RECT (mediapipe.NormalizedRect).
    Options: none.

    ::

        node {
          calculator: "HandLandmarksToRectCalculator"
          input_stream: "NORM_LANDMARKS:hand"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_RECT:rect"
        }

    Source: MediaPipe ``modules/hand_landmark/calculators/hand_landmarks_to_rect_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.inputs["IMAGE_SIZE"].set(tuple)
        contract.outputs["NORM_RECT"].set(message_type("NormalizedRect"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty() or cc.inputs["IMAGE_SIZE"].is_empty():
            return
        found = landmarks_of(cc.inputs["NORM_LANDMARKS"].value)
        size: tuple[int, int] = cc.inputs["IMAGE_SIZE"].value
        cc.outputs["NORM_RECT"].add(_hand_rect(found, size), cc.time)


def _hand_rect(found: Landmarks, size: tuple[int, int]) -> Any:
    points = found.values[:, :2]
    if len(points) == _HAND:
        points = points[_PALM]
    if len(points) <= _RING:
        raise GraphError(
            f"a hand has {_HAND} landmarks; the list has {len(points)}", code=Code.INVALID_ARGUMENT
        )
    width, height = size
    fingers = ((points[_INDEX] + points[_RING]) / 2 + points[_MIDDLE]) / 2
    along = (fingers - points[_WRIST]) * np.array([width, height], np.float32)
    rotation = normalize_radians(math.pi / 2 - math.atan2(-along[1], along[0]))

    def highest(values: Floats) -> Floats:
        found: Floats = np.maximum(values.max(axis=0), np.float32(SMALLEST))
        return found

    center = (highest(points) + points.min(axis=0)) / 2
    offsets = (points - center) * np.array([width, height], np.float32)
    cos, sin = math.cos(rotation), math.sin(rotation)
    turned = offsets @ np.array([[cos, -sin], [sin, cos]], np.float32)
    low, high = turned.min(axis=0).tolist(), highest(turned).tolist()
    x, y = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    return normalized_rect(
        (x * cos - y * sin) / width + float(center[0]),
        (x * sin + y * cos) / height + float(center[1]),
        (high[0] - low[0]) / width,
        (high[1] - low[1]) / height,
        rotation,
    )


LANDMARKS_TO_RECTS: tuple[type[Calculator], ...] = (
    HandLandmarksToRectCalculator,
    LandmarksToDetectionCalculator,
)
