"""SplitVector calculators: parts of a list as streams of their own."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from calculators.core.split_ranges import SplitRanges
from graph_runtime import CalculatorContext, CalculatorContract, Options


class SplitVectorCalculator(VectorCalculator):
    """Sends ranges of each list to its outputs.

    Inputs: #0: list of the variant's element type, long enough for all ranges.
    Outputs: #i: one per range.
    Options (mediapipe.SplitVectorCalculatorOptions):
        ranges: repeated; ``begin`` and ``end``, the end not included.
        element_only: every range has one element, and outputs carry it and not a list.
        combine_outputs: one output that gets all ranges in one list; they must not overlap.

    Variants check the element type: SplitFloatVectorCalculator and so on. SplitVectorCalculator
    takes lists of anything.

    ::

        node {
          calculator: "SplitFloatVectorCalculator"
          input_stream: "numbers"
          output_stream: "first"
          output_stream: "next_three"
          options {
            [mediapipe.SplitVectorCalculatorOptions.ext] {
              ranges { begin: 0 end: 1 }
              ranges { begin: 1 end: 4 }
            }
          }
        }

    Source: MediaPipe ``calculators/core/split_vector_calculator.h``.
    """

    options = Options("mediapipe.SplitVectorCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        ranges = SplitRanges.of(contract.options("mediapipe.SplitVectorCalculatorOptions"))
        ranges.check(contract)
        contract.inputs[0].set(cls.list_type())
        for index in range(len(contract.outputs)):
            contract.outputs[index].set(
                cls.element_type if ranges.sends_elements else cls.list_type()
            )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._ranges = SplitRanges.of(self.options)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[0].is_empty():
            return
        parts = self._ranges.parts(cc.inputs[0].value)
        for part, output in zip(parts, cc.output_list, strict=True):
            output.add(part[0] if self._ranges.sends_elements else part, cc.input_timestamp)


SPLIT_VECTORS = variants(
    SplitVectorCalculator,
    {
        "SplitFloatVectorCalculator": float,
        "SplitUint64tVectorCalculator": int,
        "SplitAffineMatrixVectorCalculator": Any,
        "SplitClassificationListVectorCalculator": Any,
        "SplitDetectionVectorCalculator": Any,
        "SplitImageVectorCalculator": Any,
        "SplitLandmarkVectorCalculator": Any,
        "SplitMatrixVectorCalculator": Any,
        "SplitNormalizedLandmarkListVectorCalculator": Any,
        "SplitNormalizedRectVectorCalculator": Any,
        "SplitTensorVectorCalculator": Any,
        "SplitTfLiteTensorVectorCalculator": Any,
        "MovableSplitImageFrameVectorCalculator": Any,
    },
)
