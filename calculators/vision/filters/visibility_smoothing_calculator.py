"""VisibilitySmoothingCalculator: visibilities that flicker less."""

from __future__ import annotations

from calculators.vision.filters.value_filters import LowPass
from calculators.vision.landmarks.landmark_ports import take_one_of
from calculators.vision.landmarks.landmarks import VISIBILITY, Landmarks, landmarks_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.VisibilitySmoothingCalculatorOptions"


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

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        tag = take_one_of(contract, "NORM_LANDMARKS", "LANDMARKS")
        prefix = "NORM_" if tag == "NORM_LANDMARKS" else ""
        contract.outputs[f"{prefix}FILTERED_LANDMARKS"].set(Landmarks)
        contract.require(
            contract.options(_OPTIONS).WhichOneof("filter_options") is not None,
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
