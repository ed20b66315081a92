"""RoiTrackingCalculator: the region of the last frame while it still fits, else a new one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from calculators.vision.landmarks.landmark_ports import take_landmarks
from calculators.vision.landmarks.landmarks import Floats, landmarks_of
from calculators.vision.messages import message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.RoiTrackingCalculatorOptions"


class _PixelRect(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float
    rotation: float


class RoiTrackingCalculator(Calculator):
    """Keeps the region that the last frame's landmarks had, as long as it fits the new region.

    Inputs:
        RECROP_RECT (mediapipe.NormalizedRect): the new region. Nothing is sent without it.
        PREV_LANDMARKS (`Landmarks`): of the last frame.
        PREV_LANDMARKS_RECT (mediapipe.NormalizedRect): their region. Without it, the new one.
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs: TRACKING_RECT (mediapipe.NormalizedRect).
    Options (mediapipe.RoiTrackingCalculatorOptions), all that are given must hold:
        iou_requirements: min_iou of the two regions.
        rect_requirements: rotation_degrees, and translation and scale in sides of the new region.
        landmarks_requirements: the landmarks lie within the new region, which grows by
            recrop_rect_margin first.

    ::

        node {
          calculator: "RoiTrackingCalculator"
          input_stream: "PREV_LANDMARKS:prev_landmarks"
          input_stream: "PREV_LANDMARKS_RECT:prev_rect"
          input_stream: "RECROP_RECT:rect"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "TRACKING_RECT:roi"
          options {
            [mediapipe.RoiTrackingCalculatorOptions.ext] {
              rect_requirements { rotation_degrees: 15 translation: 0.1 scale: 0.3 }
              landmarks_requirements { recrop_rect_margin: -0.2 }
            }
          }
        }

    Source: MediaPipe ``modules/holistic_landmark/calculators/roi_tracking_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        rect = message_type("NormalizedRect")
        take_landmarks(contract.inputs["PREV_LANDMARKS"])
        contract.inputs["PREV_LANDMARKS_RECT"].set(rect)
        contract.inputs["RECROP_RECT"].set(rect)
        contract.inputs["IMAGE_SIZE"].set(tuple)
        contract.outputs["TRACKING_RECT"].set(rect)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        if inputs["RECROP_RECT"].is_empty():
            return
        found = inputs["RECROP_RECT"].value
        has_previous = not (
            inputs["PREV_LANDMARKS_RECT"].is_empty() or inputs["PREV_LANDMARKS"].is_empty()
        )
        if has_previous and not inputs["IMAGE_SIZE"].is_empty():
            previous = inputs["PREV_LANDMARKS_RECT"].value
            points = landmarks_of(inputs["PREV_LANDMARKS"].value).values[:, :2]
            if self._fits(points, previous, found, inputs["IMAGE_SIZE"].value):
                found = previous
        cc.outputs["TRACKING_RECT"].add(found, cc.time)

    def _fits(self, points: Floats, previous: Any, new: Any, size: tuple[int, int]) -> bool:
        """True if the previous region meets all requirements."""
        options = self.options
        old_rect, new_rect = _in_pixels(previous, size), _in_pixels(new, size)
        if options.HasField("iou_requirements") and not _overlaps(
            old_rect, new_rect, options.iou_requirements.min_iou
        ):
            return False
        if options.HasField("rect_requirements") and not _is_near(
            old_rect, new_rect, options.rect_requirements
        ):
            return False
        if not options.HasField("landmarks_requirements"):
            return True
        margin = options.landmarks_requirements.recrop_rect_margin
        return _contains(new_rect, points * np.array(size, np.float32), margin)


def _in_pixels(rect: Any, size: tuple[int, int]) -> _PixelRect:
    width, height = size
    return _PixelRect(
        rect.x_center * width,
        rect.y_center * height,
        rect.width * width,
        rect.height * height,
        rect.rotation,
    )


def _overlaps(a: _PixelRect, b: _PixelRect, min_iou: float) -> bool:
    # As in MediaPipe, the centre stands for the top left corner, of both.
    width = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    height = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    shared = max(width, 0) * max(height, 0)
    union = a.width * a.height + b.width * b.height - shared
    return shared >= union * min_iou


def _is_near(old: _PixelRect, new: _PixelRect, limits: Any) -> bool:
    degrees = math.degrees(old.rotation - new.rotation)
    if degrees > 180:
        degrees -= 360
    elif degrees < -180:
        degrees += 360
    cos, sin = math.cos(-new.rotation), math.sin(-new.rotation)
    dx, dy = old.x - new.x, old.y - new.y
    return bool(
        abs(degrees) <= limits.rotation_degrees
        and abs(dx * cos - dy * sin) <= new.width * limits.translation
        and abs(dx * sin + dy * cos) <= new.height * limits.translation
        and abs(old.width - new.width) <= new.width * limits.scale
        and abs(old.height - new.height) <= new.height * limits.scale
    )


def _contains(rect: _PixelRect, points: Floats, margin: float) -> bool:
    """True if all points (n, 2) lie within the rectangle, which grows by the margin first."""
    cos, sin = math.cos(-rect.rotation), math.sin(-rect.rotation)
    turned = (points - np.array([rect.x, rect.y])) @ np.array([[cos, sin], [-sin, cos]])
    half = np.array([rect.width, rect.height]) * (1 + margin) / 2
    return bool((np.abs(turned) < half).all())
