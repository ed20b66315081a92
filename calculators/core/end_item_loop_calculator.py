"""EndItemLoopCalculator: the results of a loop as several streams."""

from __future__ import annotations

from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    Out,
    Packet,
    Timestamp,
)


class EndItemLoopCalculator(Calculator):
    """Deals the packets of a loop out to its outputs, at the timestamp the loop was begun at.

    Inputs:
        ITEM: of any type, at the loop's time.
        BATCH_END (Timestamp): from BeginItemLoopCalculator.
    Outputs: ITEM:i: one per packet of the loop. A loop without packets sends bounds; any other
        number of packets is an error.
    Options: none.

    ::

        node {
          calculator: "EndItemLoopCalculator"
          input_stream: "ITEM:pupil"
          input_stream: "BATCH_END:eyes_end"
          output_stream: "ITEM:0:left_pupil"
          output_stream: "ITEM:1:right_pupil"
        }

    Source: MediaPipe ``calculators/core/end_item_loop_calculator.cc``.
    """

    item = In[Any]("ITEM")
    batch_end = In[Timestamp]("BATCH_END")
    items = Out[Any]("ITEM", multiple=True, optional=True, same_as=item)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._items: list[Packet] = []

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["ITEM"].is_empty():
            self._items.append(cc.inputs["ITEM"].packet)
        if cc.inputs["BATCH_END"].is_empty():
            return
        time: Timestamp = cc.inputs["BATCH_END"].value
        items, self._items = self._items, []
        outputs = cc.outputs.all_of("ITEM")
        if not items:
            for output in outputs:
                output.set_next_timestamp_bound(time.next_allowed_in_stream())
            return
        if len(items) != len(outputs):
            raise GraphError(
                "Number of input items must match number of outputs: the loop brought "
                f"{len(items)}, the node has {len(outputs)} outputs",
                code=Code.INTERNAL,
            )
        for item, output in zip(items, outputs, strict=True):
            output.add_packet(item.at(time))
