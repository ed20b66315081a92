"""MediaPipeInternalSidePacketToPacketStreamCalculator: a side packet as the only packet of a
stream."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, Out, SideIn, Stop, Timestamp


class MediaPipeInternalSidePacketToPacketStreamCalculator(Calculator):
    """Sends a side packet at POSTSTREAM and closes the stream, as soon as the node opens.

    For tools that look at side packets; graphs use SidePacketToStreamCalculator.

    Input side packets: #0, of any type.
    Outputs: #0.
    Options: none.

    ::

        node {
          calculator: "MediaPipeInternalSidePacketToPacketStreamCalculator"
          input_side_packet: "labels"
          output_stream: "labels_at_the_end"
        }

    Source: MediaPipe ``framework/tool/sink.cc``.
    """

    side = SideIn[Any]()
    output = Out[Any](same_as=side)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        cc.emit(self.output, cc.side(self.side), at=Timestamp.POSTSTREAM)
        cc.close(self.output)

    def process(self, cc: CalculatorContext) -> None:
        raise Stop
