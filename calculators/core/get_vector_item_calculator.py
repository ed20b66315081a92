"""GetVectorItem calculators: one element of a list."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract, Code, GraphError, Options


class GetVectorItemCalculator(VectorCalculator):
    """Sends the element of each list that an index points at.

    Inputs:
        VECTOR: list of the variant's element type.
        INDEX (int, optional): the place, from 0. Wins over the option.
    Outputs: ITEM: the element. Nothing where there is no list, or no index at all.
    Options (mediapipe.GetVectorItemCalculatorOptions):
        item_index: the place where INDEX has no packet; must be given when INDEX is not connected.
        output_empty_on_oob: beyond the end of the list, send nothing; otherwise that is an error.

    Variants: GetDetectionVectorItemCalculator, GetRectVectorItemCalculator and so on.
    GetVectorItemCalculator takes lists of anything.

    ::

        node {
          calculator: "GetDetectionVectorItemCalculator"
          input_stream: "VECTOR:detections"
          output_stream: "ITEM:best_detection"
          options { [mediapipe.GetVectorItemCalculatorOptions.ext] { item_index: 0 } }
        }

    Source: MediaPipe ``calculators/core/get_vector_item_calculator.h``.
    """

    options = Options("mediapipe.GetVectorItemCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.inputs["INDEX"].set(int).optional()
        contract.outputs["ITEM"].set(cls.element_type)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._has_index = cc.inputs.has_tag("INDEX")
        self._default: int | None = None
        if self.options.HasField("item_index"):
            self._default = self.options.item_index
        elif not self._has_index:
            raise GraphError(
                "there is no index: connect the input stream INDEX, or set item_index in "
                "GetVectorItemCalculatorOptions",
                code=Code.INTERNAL,
            )

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["VECTOR"].is_empty():
            return
        items: list[Any] = cc.inputs["VECTOR"].value
        index = self._default
        if self._has_index and not cc.inputs["INDEX"].is_empty():
            index = cc.inputs["INDEX"].value
        if index is None:
            return
        if index < 0 or (index >= len(items) and not self.options.output_empty_on_oob):
            raise GraphError(
                f"index {index} is out of range: the list has {len(items)} elements",
                code=Code.INTERNAL,
            )
        if index < len(items):
            cc.outputs["ITEM"].add(items[index], cc.input_timestamp)


GET_VECTOR_ITEM = variants(
    GetVectorItemCalculator,
    {
        "GetClassificationListVectorItemCalculator": Any,
        "GetDetectionVectorItemCalculator": Any,
        "GetLandmarkListVectorItemCalculator": Any,
        "GetNormalizedLandmarkListVectorItemCalculator": Any,
        "GetNormalizedRectVectorItemCalculator": Any,
        "GetRectVectorItemCalculator": Any,
    },
)
