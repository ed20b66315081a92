"""Filters over time: landmarks and visibilities that tremble less.

A filter has one state per element of an array. It computes as MediaPipe's ``util/filtering`` does,
down to which steps are float and which double.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import message_type
from calculators.vision.landmarks.landmarks import (
    VISIBILITY,
    Floats,
    Landmarks,
    landmarks_of,
    take_one_of,
)
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

Doubles = npt.NDArray[np.float64]

#: Nanoseconds between two frames at 30 per second.
_FRAME: Final = 1_000_000_000 // 30


class LowPass:
    """An exponential low-pass filter of n numbers, in float32."""

    def __init__(self, count: int, alpha: float) -> None:
        self._alpha: Any = np.full(count, alpha, np.float32)
        self._stored: Floats | None = None
        #: The last values as they came.
        self.raw = np.zeros(count, np.float32)

    @property
    def has_value(self) -> bool:
        """True after the first call."""
        return self._stored is not None

    def apply(self, values: npt.NDArray[Any], alpha: Any = None) -> Floats:
        """Return the filtered values; ``alpha`` from 0 to 1, per element, from now on."""
        values = values.astype(np.float32, copy=False)
        if alpha is not None:
            given = np.asarray(alpha, np.float32)
            self._alpha = np.where((given >= 0) & (given <= 1), given, self._alpha)
        if self._stored is None:
            found = values
        else:
            new: Floats = self._alpha * values
            rest: Doubles = 1.0 - self._alpha.astype(np.float64)
            found = (new.astype(np.float64) + rest * self._stored).astype(np.float32)
        self.raw = values
        self._stored = found
        return found


class OneEuro:
    """The One-Euro filter of n numbers: the faster a number changes, the less it is smoothed.

    Source: Casiez, Roussel, Vogel: "1 Euro Filter" (CHI 2012), with MediaPipe's scale by the
    object's size.
    """

    def __init__(
        self, count: int, frequency: float, min_cutoff: float, beta: float, derivate_cutoff: float
    ) -> None:
        """``frequency`` per second, until timestamps show it."""
        self._frequency = frequency
        self._min_cutoff = min_cutoff
        self._beta = beta
        self._derivate_cutoff = derivate_cutoff
        self._values = LowPass(count, self._alpha(min_cutoff))
        self._changes = LowPass(count, self._alpha(derivate_cutoff))
        self._last = -1

    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]:
        """Return the filtered values; ``time`` in nanoseconds, ``scale`` 1 / the object's size."""
        if self._last >= time:
            return values
        if self._last != 0 and time != 0:
            self._frequency = 1.0 / ((time - self._last) * 1e-9)
        self._last = time
        change = np.zeros(len(values))
        if self._values.has_value:
            change = (values.astype(np.float64) - self._values.raw) * scale * self._frequency
        smooth = self._changes.apply(change, self._alpha(self._derivate_cutoff))
        cutoff = self._min_cutoff + self._beta * np.abs(smooth.astype(np.float64))
        return self._values.apply(values, self._alpha(cutoff))

    def _alpha(self, cutoff: Any) -> Any:
        period = 1.0 / self._frequency
        return 1.0 / (1.0 + (1.0 / (2.0 * math.pi * cutoff)) / period)


class RelativeVelocity:
    """A low-pass filter of n numbers that trusts new values the more, the faster they move."""

    def __init__(self, count: int, window_size: int, velocity_scale: float) -> None:
        self._window_size = window_size
        self._velocity_scale = np.float32(velocity_scale)
        #: Scaled distances and nanoseconds, the newest first.
        self._window: deque[tuple[Floats, int]] = deque()
        self._low_pass = LowPass(count, 1.0)
        self._last: Floats | None = None
        self._last_scale = np.float32(1)
        self._last_time = -1

    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]:
        """Return the filtered values; ``time`` in nanoseconds, ``scale`` 1 / the object's size."""
        if self._last_time >= time:
            return values
        factor = np.float32(scale)
        alpha: Any = np.float32(1)
        if self._last is not None:
            distance = values * factor - self._last * self._last_scale
            duration = time - self._last_time
            distances, durations = distance, duration
            # As in MediaPipe: earlier distances count as far as the window reaches at 30 frames
            # a second, so not across a gap.
            longest = (1 + self._window_size) * _FRAME
            for earlier, took in self._window:
                if durations + took > longest:
                    break
                distances = distances + earlier
                durations += took
            velocity = (distances / (durations * 1e-9)).astype(np.float32)
            alpha = 1 - 1 / (1 + self._velocity_scale * np.abs(velocity))
            self._window.appendleft((distance, duration))
            if len(self._window) > self._window_size:
                self._window.pop()
        self._last, self._last_scale, self._last_time = values, factor, time
        return self._low_pass.apply(values, alpha)


_LANDMARKS_OPTIONS = messages.LandmarksSmoothingCalculatorOptions


class _Filter(Protocol):
    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]: ...


class LandmarksSmoothingCalculator(Calculator):
    """Filters x, y and z of landmarks over time; visibility and presence pass.

    The filters start over where another input has a packet and the landmarks have none.

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

    options = Options(_LANDMARKS_OPTIONS)

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
            contract.options(_LANDMARKS_OPTIONS).WhichOneof("filter_options") is not None,
            "one of no_filter, velocity_filter and one_euro_filter is needed",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._tag = "NORM_LANDMARKS" if cc.inputs.has_tag("NORM_LANDMARKS") else "LANDMARKS"
        kind = self.options.WhichOneof("filter_options")
        assert kind is not None, "the contract asks for one"
        self._kind = kind
        self._settings = getattr(self.options, self._kind)
        self._make = _maker(self._kind, self._settings)
        self._filter: _Filter | None = None
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        if inputs[self._tag].is_empty():
            # A person who comes back after a gap must not be drawn towards the place where the last
            # one was.
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
        """Return the points (n, 3), in the unit in which they came."""
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
        """Return the mean of the object's width and height, in the unit of the points."""
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


_VISIBILITY_OPTIONS = messages.VisibilitySmoothingCalculatorOptions


class VisibilitySmoothingCalculator(Calculator):
    """Filters the visibilities of landmarks over time, also across frames without landmarks.

    Inputs: NORM_LANDMARKS or LANDMARKS (`Landmarks`): always as many.
    Outputs: NORM_FILTERED_LANDMARKS or FILTERED_LANDMARKS (`Landmarks`).
    Options (mediapipe.VisibilitySmoothingCalculatorOptions), one of:
        no_filter: visibilities pass.
        low_pass_filter: alpha, the part of the new value, default 0.1.

    ::

        node {
          calculator: "VisibilitySmoothingCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          output_stream: "NORM_FILTERED_LANDMARKS:steady_landmarks"
          options {
            [mediapipe.VisibilitySmoothingCalculatorOptions.ext] { low_pass_filter { alpha: 0.1 } }
          }
        }

    Source: MediaPipe ``calculators/util/visibility_smoothing_calculator.cc``.
    """

    options = Options(_VISIBILITY_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        tag = take_one_of(contract, "NORM_LANDMARKS", "LANDMARKS")
        prefix = "NORM_" if tag == "NORM_LANDMARKS" else ""
        contract.outputs[f"{prefix}FILTERED_LANDMARKS"].set(Landmarks)
        contract.require(
            contract.options(_VISIBILITY_OPTIONS).WhichOneof("filter_options") is not None,
            "one of no_filter and low_pass_filter is needed",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._is_on = self.options.WhichOneof("filter_options") == "low_pass_filter"
        self._filter: LowPass | None = None
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        (shard,) = cc.input_list
        if shard.is_empty():
            return
        found = landmarks_of(shard.value)
        if self._is_on:
            found = self._smoothed(found)
        cc.output_list[0].add(found, cc.time)

    def _smoothed(self, found: Landmarks) -> Landmarks:
        if self._filter is None:
            self._count = len(found)
            self._filter = LowPass(len(found), self.options.low_pass_filter.alpha)
        if len(found) != self._count:
            raise GraphError(
                f"there were {self._count} landmarks and now there are {len(found)}",
                code=Code.INVALID_ARGUMENT,
            )
        values = found.values.copy()
        values[:, VISIBILITY] = self._filter.apply(values[:, VISIBILITY])
        return Landmarks(
            values,
            is_normalized=found.is_normalized,
            has_visibility=True,
            has_presence=found.has_presence,
        )
