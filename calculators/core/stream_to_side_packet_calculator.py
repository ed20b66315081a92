"""StreamToSidePacketCalculator: the only packet of a stream as side packet."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, In, SideOut


class StreamToSidePacketCalculator(Calculator):
    """Makes the packet of a stream a side packet. A second packet is an error.

    Nodes that take the side packet open when it is there.

    Inputs: #0, of any type; brings exactly one packet.
    Output side packets: #0.
    Options: none.

    ::

        node {
          calculator: "StreamToSidePacketCalculator"
          input_stream: "labels"
          output_side_packet: "labels_for_all"
        }

    Source: MediaPipe ``calculators/core/stream_to_side_packet_calculator.cc``.
    """

    input = In[Any](optional=True)
    output = SideOut[Any](same_as=input)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs[0].is_empty():
            cc.set_side(self.output, cc.inputs[0].value)
