"""LandmarksSmoothingCalculator: landmarks that tremble less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calculators.vision.filters.value_filters import OneEuro, RelativeVelocity
from calculators.vision.landmarks.landmark_ports import take_one_of
from calculators.vision.landmarks.landmarks import Floats, Landmarks, landmarks_of
from calculators.vision.messages import message_type
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.LandmarksSmoothingCalculatorOptions"


class _Filter(Protocol):
    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]: ...


class LandmarksSmoothingCalculator(Calculator):
    """Filters x, y and z of landmarks over time; visibility and presence pass.

    Where another input has a packet and the landmarks have none, the filters begin anew.

    Inputs:
        NORM_LANDMARKS (`Landmarks`) with IMAGE_SIZE (tuple: width and height), or
        LANDMARKS (`Landmarks`).
        OBJECT_SCALE_ROI (mediapipe.NormalizedRect or mediapipe.Rect, optional): the object, by
            whose size movements are measured; the box around the landmarks where there is none.
    Outputs: NORM_FILTERED_LANDMARKS or FILTERED_LANDMARKS (`Landmarks`).
    Options (mediapipe.LandmarksSmoothingCalculatorOptions), one of:
        no_filter: landmarks pass.
        velocity_filter: window_size, velocity_scale, min_allowed_object_scale,
            disable_value_scaling.
        one_euro_filter: frequency, min_cutoff, beta, derivate_cutoff, min_allowed_object_scale,
            disable_value_scaling.

    ::

        node {
          calculator: "LandmarksSmoothingCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_FILTERED_LANDMARKS:smooth_landmarks"
          options {
            [mediapipe.LandmarksSmoothingCalculatorOptions.ext] {
              one_euro_filter { min_cutoff: 0.05 beta: 80.0 derivate_cutoff: 1.0 }
            }
          }
        }

    Source: MediaPipe ``calculators/util/landmarks_smoothing_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        tag = take_one_of(contract, "NORM_LANDMARKS", "LANDMARKS")
        inputs["IMAGE_SIZE"].set(tuple).optional()
        inputs["OBJECT_SCALE_ROI"].set_one_of(
            message_type("NormalizedRect"), message_type("Rect")
        ).optional()
        if tag == "NORM_LANDMARKS":
            contract.require(inputs.has_tag("IMAGE_SIZE"), "NORM_LANDMARKS needs IMAGE_SIZE")
            outputs["NORM_FILTERED_LANDMARKS"].set(Landmarks)
        else:
            outputs["FILTERED_LANDMARKS"].set(Landmarks)
        contract.require(
            contract.options(_OPTIONS).WhichOneof("filter_options") is not None,
            "one of no_filter, velocity_filter and one_euro_filter is needed",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._tag = "NORM_LANDMARKS" if cc.inputs.has_tag("NORM_LANDMARKS") else "LANDMARKS"
        self._kind = self.options.WhichOneof("filter_options")
        self._settings = getattr(self.options, self._kind)
        self._make = _maker(self._kind, self._settings)
        self._filter: _Filter | None = None
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        if inputs[self._tag].is_empty():
            self._filter = None
            return
        found = landmarks_of(inputs[self._tag].value)
        size = (1, 1)
        if self._tag == "NORM_LANDMARKS":
            if inputs["IMAGE_SIZE"].is_empty():
                raise GraphError(
                    "there are landmarks without an IMAGE_SIZE at their timestamp",
                    code=Code.INVALID_ARGUMENT,
                )
            size = inputs["IMAGE_SIZE"].value
        if self._make is not None:
            found = found.with_points(self._smoothed(cc, found.values[:, :3], size))
        cc.output_list[0].add(found, cc.time)

    def _smoothed(self, cc: CalculatorContext, points: Floats, size: tuple[int, int]) -> Floats:
        """The points (n, 3), in the unit in which they came."""
        unit = np.array([size[0], size[1], size[0]], np.float32)
        scaled = points * unit
        settings = self._settings
        scale = 1.0
        if not settings.disable_value_scaling:
            object_scale = self._object_scale(cc, scaled, size)
            if object_scale < settings.min_allowed_object_scale:
                return points
            scale = float(np.float32(1) / object_scale)
        if self._filter is None or self._count != scaled.size:
            assert self._make is not None, "the caller has checked it"
            self._count = scaled.size
            self._filter = self._make(scaled.size)
        found = self._filter.apply(cc.time * 1000, scale, scaled.reshape(-1))
        smooth: Floats = found.reshape(-1, 3).astype(np.float32, copy=False) / unit
        return smooth

    def _object_scale(
        self, cc: CalculatorContext, points: Floats, size: tuple[int, int]
    ) -> np.float32:
        """The mean of the object's width and height, in the unit of the points."""
        if cc.inputs.has_tag("OBJECT_SCALE_ROI") and not cc.inputs["OBJECT_SCALE_ROI"].is_empty():
            rect = cc.inputs["OBJECT_SCALE_ROI"].value
            is_normalized = rect.DESCRIPTOR.name == "NormalizedRect"
            width, height = size if is_normalized else (1, 1)
            sides = np.float32(rect.width) * width + np.float32(rect.height) * height
            return np.float32(sides / 2)
        low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        return np.float32((high - low).sum(dtype=np.float32) / np.float32(2))


def _maker(kind: str, settings: Any) -> Callable[[int], _Filter] | None:
    """A function that makes the filter of so many numbers; None: nothing is filtered."""
    if kind == "velocity_filter":
        return lambda count: RelativeVelocity(count, settings.window_size, settings.velocity_scale)
    if kind == "one_euro_filter":
        return lambda count: OneEuro(
            count,
            settings.frequency,
            settings.min_cutoff,
            settings.beta,
            settings.derivate_cutoff,
        )
    return None
