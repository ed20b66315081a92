"""BeginItemLoopCalculator: the packets of several streams as packets of a loop."""

from __future__ import annotations

from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Out,
    Timestamp,
)


class BeginItemLoopCalculator(Calculator):
    """Sends the packets of several streams one after the other, for EndItemLoopCalculator.

    Like BeginLoop for a list, with the elements as loose streams: the nodes in between exist once.
    Inside the loop time is the loop's own: 0, 1, 2 ..., one tick per item. A timestamp at which no
    item comes takes one tick.

    Inputs:
        ITEM:i: at least one, of any type. At each timestamp all of them have a packet, or none.
        CLONE:i (optional): of any type; repeated at each item of the same timestamp.
    Outputs:
        ITEM: the items, at loop time.
        CLONE:i: one per CLONE input.
        BATCH_END (Timestamp): at the last item's tick, the timestamp of the items.
    Options: none.

    ::

        node {
          calculator: "BeginItemLoopCalculator"
          input_stream: "ITEM:0:left"
          input_stream: "ITEM:1:right"
          output_stream: "ITEM:eye"
          output_stream: "BATCH_END:eyes_end"
        }

    Source: MediaPipe ``calculators/core/begin_item_loop_calculator.cc``.
    """

    items = In[Any]("ITEM", multiple=True, optional=True)
    clones = In[Any]("CLONE", multiple=True, optional=True)
    item = Out[Any]("ITEM", same_as=items)
    batch_end = Out[Timestamp]("BATCH_END")

    timestamp_offset = None
    process_timestamp_bounds = True

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(inputs.num_entries("ITEM") > 0, "Must have at least one ITEM input")
        count = inputs.num_entries("CLONE")
        contract.require(
            outputs.num_entries("CLONE") == count,
            "Number of CLONE inputs and outputs must match: there are "
            f"{count} inputs and {outputs.num_entries('CLONE')} outputs",
        )
        for index in range(count):
            outputs["CLONE", index].set_same_as(inputs["CLONE", index])

    def open(self, cc: CalculatorContext) -> None:
        self._clock = 0

    def process(self, cc: CalculatorContext) -> None:
        items = [shard.packet for shard in cc.inputs.all_of("ITEM") if not shard.is_empty()]
        if items and len(items) != cc.inputs.num_entries("ITEM"):
            raise GraphError(
                "Cannot mix non-empty input ITEMs with empty input ITEMs: "
                f"{len(items)} of {cc.inputs.num_entries('ITEM')} have a packet",
                code=Code.INTERNAL,
            )
        clones = [shard.packet for shard in cc.inputs.all_of("CLONE")]
        for item in items:
            cc.outputs["ITEM"].add_packet(item.at(self._clock))
            for index, clone in enumerate(clones):
                # An empty one becomes a bound.
                cc.outputs["CLONE", index].add_packet(clone.at(self._clock))
            self._clock += 1
        if not items:
            self._clock += 1
            for output in cc.output_list:
                output.set_next_timestamp_bound(self._clock)
        cc.outputs["BATCH_END"].add(cc.input_timestamp, self._clock - 1)
