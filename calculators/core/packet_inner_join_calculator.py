"""PacketInnerJoinCalculator: only timestamps that all streams have."""

from __future__ import annotations

from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class PacketInnerJoinCalculator(Calculator):
    """Passes packets on where every input has one at the same timestamp, and drops the others.

    Inputs: #i: streams of any type.
    Outputs: #i: one per input.
    Options: none.

    ::

        node {
          calculator: "PacketInnerJoinCalculator"
          input_stream: "left_camera"
          input_stream: "right_camera"
          output_stream: "left"
          output_stream: "right"
        }

    Source: MediaPipe ``calculators/core/packet_inner_join_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(
            len(inputs) == len(outputs),
            "The number of input and output streams must match: there are "
            f"{len(inputs)} inputs and {len(outputs)} outputs.",
        )
        for index in range(len(inputs)):
            outputs[index].set_same_as(inputs[index].set_any())
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        packets = [shard.packet for shard in cc.input_list]
        if any(packet.is_empty() for packet in packets):
            return
        for packet, output in zip(packets, cc.output_list, strict=True):
            output.add_packet(packet)
