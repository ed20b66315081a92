"""MakePairCalculator: two streams as one of pairs."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, Packet


class MakePairCalculator(Calculator):
    """Pairs the packets of two streams.

    Inputs: #0 and #1, of any type.
    Outputs: #0: a tuple of two `Packet`; one of them is empty where a stream has no packet at the
        timestamp.
    Options: none.

    ::

        node {
          calculator: "MakePairCalculator"
          input_stream: "image"
          input_stream: "mask"
          output_stream: "image_and_mask"
        }

    Source: MediaPipe ``calculators/core/make_pair_calculator.cc``.
    """

    inputs = In[Any](multiple=True)
    pair = Out[tuple[Packet, Packet]]()

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count == 2, f"there must be two input streams, not {count}")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.pair, (cc.inputs[0].packet, cc.inputs[1].packet))
