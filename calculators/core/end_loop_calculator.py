"""EndLoop calculators: the results of a loop as one list."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract, Timestamp


class EndLoopCalculator(VectorCalculator):
    """Collects the packets of a loop into a list, for the timestamp the loop was begun at.

    A loop without packets sends only a timestamp bound, not even an empty list.

    Inputs:
        ITEM: of the variant's element type, at the loop's time.
        BATCH_END (Timestamp): from BeginLoop; ends the list.
    Outputs: ITERABLE: list of the element type, at the timestamp that BATCH_END carries.
    Options: none.

    Variants check the element type: EndLoopFloatCalculator, EndLoopBooleanCalculator and so on.
    EndLoopCalculator collects anything.

    ::

        node {
          calculator: "EndLoopFloatCalculator"
          input_stream: "ITEM:score"
          input_stream: "BATCH_END:words_end"
          output_stream: "ITERABLE:scores"
        }

    Source: MediaPipe ``calculators/core/end_loop_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["BATCH_END"].set(Timestamp)
        contract.inputs["ITEM"].set(cls.element_type)
        contract.outputs["ITERABLE"].set(cls.list_type())

    def open(self, cc: CalculatorContext) -> None:
        self._items: list[Any] = []

    def process(self, cc: CalculatorContext) -> None:
        item = cc.inputs["ITEM"]
        if not item.is_empty():
            self._items.append(item.value)
        end = cc.inputs["BATCH_END"]
        if end.is_empty():
            return
        time: Timestamp = end.value
        if self._items:
            cc.outputs["ITERABLE"].add(self._items, time)
            self._items = []
        else:
            cc.outputs["ITERABLE"].set_next_timestamp_bound(time.next_allowed_in_stream())


END_LOOPS = variants(
    EndLoopCalculator,
    {
        "EndLoopBooleanCalculator": bool,
        "EndLoopFloatCalculator": float,
        "EndLoopAffineMatrixCalculator": Any,
        "EndLoopClassificationListCalculator": Any,
        "EndLoopDetectionCalculator": Any,
        "EndLoopImageCalculator": Any,
        "EndLoopImageFrameCalculator": Any,
        "EndLoopImageSizeCalculator": tuple,
        "EndLoopLandmarkListVectorCalculator": Any,
        "EndLoopMatrixCalculator": Any,
        "EndLoopNormalizedLandmarkListVectorCalculator": Any,
        "EndLoopNormalizedRectCalculator": Any,
        "EndLoopRenderDataCalculator": Any,
        "EndLoopTensorCalculator": Any,
    },
)
