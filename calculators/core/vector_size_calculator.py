"""VectorSize calculators: the lengths of lists."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract


class VectorSizeCalculator(VectorCalculator):
    """Sends the number of elements of each list.

    Inputs: VECTOR: list of the variant's element type.
    Outputs: SIZE (int).
    Options: none.

    Variants: LandmarkListVectorSizeCalculator, ClassificationListVectorSizeCalculator.
    VectorSizeCalculator takes lists of anything.

    ::

        node {
          calculator: "VectorSizeCalculator"
          input_stream: "VECTOR:detections"
          output_stream: "SIZE:detection_count"
        }

    Source: MediaPipe ``calculators/core/vector_size_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.outputs["SIZE"].set(int)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["VECTOR"].is_empty():
            cc.outputs["SIZE"].add(len(cc.inputs["VECTOR"].value), cc.input_timestamp)


VECTOR_SIZES = variants(
    VectorSizeCalculator,
    {"ClassificationListVectorSizeCalculator": Any, "LandmarkListVectorSizeCalculator": Any},
)
