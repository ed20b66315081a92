"""RoundRobinDemuxCalculator: packets dealt out in turn."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, In, Out


class RoundRobinDemuxCalculator(Calculator):
    """Deals packets out to its outputs in turn, so that slow nodes can work side by side.

    A MuxCalculator with the same SELECT stream puts the results back in order.

    Inputs: #0, of any type.
    Outputs:
        OUTPUT:i: at least one; each gets every n-th packet, and bounds for the others.
        SELECT (int, optional): which output got the packet.
    Options: none.

    ::

        node {
          calculator: "RoundRobinDemuxCalculator"
          input_stream: "work"
          output_stream: "OUTPUT:0:work_0"
          output_stream: "OUTPUT:1:work_1"
          output_stream: "SELECT:which"
        }

    Source: MediaPipe ``calculators/core/round_robin_demux_calculator.cc``.
    """

    input = In[Any]()
    outputs = Out[Any]("OUTPUT", multiple=True, same_as=input)
    select = Out[int]("SELECT", optional=True)

    def open(self, cc: CalculatorContext) -> None:
        self._count = cc.outputs.num_entries("OUTPUT")
        self._next = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[0].is_empty():
            return
        cc.outputs["OUTPUT", self._next].add_packet(cc.inputs[0].packet)
        cc.emit(self.select, self._next)
        self._next = (self._next + 1) % self._count
