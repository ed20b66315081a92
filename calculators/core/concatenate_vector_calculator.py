"""ConcatenateVector calculators: several lists as one."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract, Options


class ConcatenateVectorCalculator(VectorCalculator):
    """Joins lists and single elements of the same timestamp into one list, in stream order.

    Inputs: #i: at least one; a list of the variant's element type, or one element.
    Outputs: #0: the list. Inputs without a packet are left out.
    Options (mediapipe.ConcatenateVectorCalculatorOptions):
        only_emit_if_all_present: send nothing where an input has no packet.

    Variants check the element type: ConcatenateFloatVectorCalculator and so on.
    ConcatenateVectorCalculator joins anything.

    ::

        node {
          calculator: "ConcatenateFloatVectorCalculator"
          input_stream: "scores"
          input_stream: "another_score"
          output_stream: "all_scores"
        }

    Source: MediaPipe ``calculators/core/concatenate_vector_calculator.h``.
    """

    options = Options("mediapipe.ConcatenateVectorCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count >= 1, "there must be at least one input stream (without a tag)")
        for index in range(count):
            if cls.element_type is Any:
                contract.inputs[index].set_any()
            else:
                contract.inputs[index].set_one_of(cls.element_type, cls.list_type())
        contract.outputs[0].set(cls.list_type())
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._needs_all = self.options.only_emit_if_all_present

    def process(self, cc: CalculatorContext) -> None:
        joined: list[Any] = []
        for shard in cc.input_list:
            if not shard.is_empty():
                value = shard.value
                if isinstance(value, list):
                    joined += value
                else:
                    joined.append(value)
            elif self._needs_all:
                return
        cc.outputs[0].add(joined, cc.input_timestamp)


CONCATENATE_VECTORS = variants(
    ConcatenateVectorCalculator,
    {
        "ConcatenateBoolVectorCalculator": bool,
        "ConcatenateFloatVectorCalculator": float,
        "ConcatenateInt32VectorCalculator": int,
        "ConcatenateUInt64VectorCalculator": int,
        "ConcatenateStringVectorCalculator": str,
        "ConcatenateClassificationListVectorCalculator": Any,
        "ConcatenateDetectionVectorCalculator": Any,
        "ConcatenateImageVectorCalculator": Any,
        # The name without "k" is MediaPipe's, which keeps it for old graphs.
        "ConcatenateLandmarListVectorCalculator": Any,
        "ConcatenateLandmarkListVectorCalculator": Any,
        "ConcatenateLandmarkVectorCalculator": Any,
        "ConcatenateNormalizedLandmarkListVectorCalculator": Any,
        "ConcatenateRenderDataVectorCalculator": Any,
        "ConcatenateTensorVectorCalculator": Any,
    },
)
