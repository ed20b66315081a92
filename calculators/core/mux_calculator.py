"""MuxCalculator: one of several streams, chosen by number."""

from __future__ import annotations

from typing import Any

from calculators.core.side_fallback import require_one_place
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Out,
    SideIn,
)


class MuxCalculator(Calculator):
    """Passes on the input stream whose number SELECT gives.

    With a SELECT stream the node uses MuxInputStreamHandler: only the selected stream is waited
    for, and packets of the others are dropped.

    Inputs:
        INPUT:i: streams of any type.
        SELECT (int): the number of the stream that counts at this timestamp.
    Outputs: OUTPUT: of the type of INPUT:0.
    Input side packets: SELECT (int), in place of the stream.
    Options: none.

    ::

        node {
          calculator: "MuxCalculator"
          input_stream: "INPUT:0:fast"
          input_stream: "INPUT:1:exact"
          input_stream: "SELECT:which"
          output_stream: "OUTPUT:result"
        }

    Source: MediaPipe ``calculators/core/mux_calculator.cc``.
    """

    select = In[int]("SELECT", optional=True)
    select_side = SideIn[int]("SELECT", optional=True)
    inputs = In[Any]("INPUT", multiple=True)
    output = Out[Any]("OUTPUT", same_as=inputs)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        require_one_place(contract, "SELECT")
        if contract.inputs.has_tag("SELECT"):
            contract.input_stream_handler = "MuxInputStreamHandler"

    def open(self, cc: CalculatorContext) -> None:
        self._count = cc.inputs.num_entries("INPUT")

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("SELECT"):
            if cc.inputs["SELECT"].is_empty():
                return
            selected = cc.inputs["SELECT"].value
        else:
            selected = cc.input_side_packets["SELECT"].value
        if not 0 <= selected < self._count:
            raise GraphError(
                f"SELECT is {selected}, but there are {self._count} inputs: it must be in "
                f"0 <= select < {self._count}",
                code=Code.INTERNAL,
            )
        packet = cc.inputs["INPUT", selected].packet
        if not packet.is_empty():
            cc.outputs["OUTPUT"].add_packet(packet)
