"""SequenceShiftCalculator: packets at the timestamps of their neighbours."""

from __future__ import annotations

from collections import deque
from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    Options,
    Out,
    Packet,
    SideIn,
)


class SequenceShiftCalculator(Calculator):
    """Sends packet i at the timestamp of packet i + n.

    With n < 0 the first packets are dropped, with n > 0 the last ones. Only n = 0 promises anything
    beyond the packets.

    Inputs: #0, of any type.
    Outputs: #0.
    Input side packets: PACKET_OFFSET (int, optional): n, in place of the option.
    Options (mediapipe.SequenceShiftCalculatorOptions):
        packet_offset: n, default -1.
        emit_empty_packets_before_first_packet: not supported, as in MediaPipe.

    ::

        node {
          calculator: "SequenceShiftCalculator"
          input_stream: "frame"
          output_stream: "next_frame"
        }

    Source: MediaPipe ``calculators/core/sequence_shift_calculator.cc``.
    """

    input = In[Any]()
    offset = SideIn[int]("PACKET_OFFSET", optional=True)
    output = Out[Any](same_as=input)
    options = Options("mediapipe.SequenceShiftCalculatorOptions")

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._offset: int = cc.side(self.offset, self.options.packet_offset)
        #: The last |n| packets. For n > 0 their values are wanted, for n < 0 their timestamps.
        self._earlier: deque[Packet] = deque()
        if self._offset == 0:
            cc.set_offset(0)
        if self._offset > 0 and self.options.emit_empty_packets_before_first_packet:
            raise GraphError(
                "emit_empty_packets_before_first_packet is not supported; leave it out",
                code=Code.INVALID_ARGUMENT,
            )

    def process(self, cc: CalculatorContext) -> None:
        packet = cc.inputs[0].packet
        if packet.is_empty():
            return
        self._earlier.append(packet)
        if len(self._earlier) > abs(self._offset):
            other = self._earlier.popleft()
            value, time = (other, packet) if self._offset > 0 else (packet, other)
            cc.outputs[0].add_packet(value.at(time.timestamp))
