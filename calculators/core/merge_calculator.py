"""MergeCalculator: several streams as one."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out


class MergeCalculator(Calculator):
    """Joins streams: at each timestamp, the packet of the first input that has one.

    Inputs: #i: at least one stream, of any types.
    Outputs: #0: of any type.
    Options: none.

    ::

        node {
          calculator: "MergeCalculator"
          input_stream: "preferred"
          input_stream: "fallback"
          output_stream: "merged"
        }

    Source: MediaPipe ``calculators/core/merge_calculator.h``.
    """

    inputs = In[Any](multiple=True, optional=True)
    output = Out[Any]()

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.require(contract.inputs.num_entries("") > 0, "Needs at least one input stream")

    def process(self, cc: CalculatorContext) -> None:
        for shard in cc.input_list:
            if not shard.is_empty():
                cc.output_list[0].add_packet(shard.packet)
                return
