"""ClipVectorSize calculators: lists cut to a maximum length."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract, Code, GraphError, Options


class ClipVectorSizeCalculator(VectorCalculator):
    """Keeps the first elements of each list.

    Inputs: #0: list of the variant's element type.
    Outputs: #0: the same list, or its first ``max_vec_size`` elements.
    Input side packets: #0 (int, optional): in place of the option.
    Options (mediapipe.ClipVectorSizeCalculatorOptions):
        max_vec_size: at least 1, default 1.

    Variants: ClipDetectionVectorSizeCalculator, ClipNormalizedRectVectorSizeCalculator.
    ClipVectorSizeCalculator takes lists of anything.

    ::

        node {
          calculator: "ClipDetectionVectorSizeCalculator"
          input_stream: "detections"
          output_stream: "first_detections"
          options { [mediapipe.ClipVectorSizeCalculatorOptions.ext] { max_vec_size: 5 } }
        }

    Source: MediaPipe ``calculators/core/clip_vector_size_calculator.h``.
    """

    options = Options("mediapipe.ClipVectorSizeCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        limit = contract.options("mediapipe.ClipVectorSizeCalculatorOptions").max_vec_size
        contract.require(limit >= 1, _too_small(limit))
        contract.inputs[0].set(cls.list_type())
        contract.outputs[0].set(cls.list_type())
        contract.input_side_packets[0].set(int).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        side = cc.input_side_packets.get(0)
        self._limit: int = self.options.max_vec_size if side is None else side.value
        if self._limit < 1:
            raise GraphError(_too_small(self._limit), code=Code.INTERNAL)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs[0].is_empty():
            items: list[Any] = cc.inputs[0].value
            cc.outputs[0].add(items[: self._limit], cc.input_timestamp)


def _too_small(limit: int) -> str:
    return f"max_vec_size should be greater than or equal to 1. It is {limit}."


CLIP_VECTOR_SIZE = variants(
    ClipVectorSizeCalculator,
    {"ClipDetectionVectorSizeCalculator": Any, "ClipNormalizedRectVectorSizeCalculator": Any},
)
