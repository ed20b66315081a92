"""MergeToVector calculators: several streams as one of lists."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract


class MergeToVectorCalculator(VectorCalculator):
    """Makes a list of the packets of the same timestamp, in stream order.

    Inputs: #i: at least one; the variant's element type.
    Outputs: #0: list. Inputs without a packet are left out.
    Options: none.

    Variants: MergeDetectionsToVectorCalculator, MergeImagesToVectorCalculator.
    MergeToVectorCalculator takes anything.

    ::

        node {
          calculator: "MergeDetectionsToVectorCalculator"
          input_stream: "face"
          input_stream: "hand"
          output_stream: "detections"
        }

    Source: MediaPipe ``calculators/core/merge_to_vector_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count > 0, "Needs at least one input stream")
        for index in range(count):
            contract.inputs[index].set(cls.element_type)
        contract.outputs[0].set(cls.list_type())
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        items = [shard.value for shard in cc.input_list if not shard.is_empty()]
        cc.outputs[0].add(items, cc.input_timestamp)


MERGE_TO_VECTOR = variants(
    MergeToVectorCalculator,
    {"MergeDetectionsToVectorCalculator": Any, "MergeImagesToVectorCalculator": Any},
)
