"""SidePacketsToStreamsCalculator: lists of packets as streams."""

from __future__ import annotations

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
    Packet,
    Stop,
    Timestamp,
)

_OPTIONS = "mediapipe.SidePacketsToStreamsCalculatorOptions"
# SidePacketsToStreamsCalculatorOptions.SetTimestampMode
_VECTOR_INDEX, _PRE_STREAM, _WHOLE_STREAM, _NONE = range(4)


class SidePacketsToStreamsCalculator(Calculator):
    """Sends the packets in side packets: a graph's input without an application that feeds it.

    Input side packets: #i: a list of `Packet`, all lists of one length; or one value of any type,
        without ``vectors_of_packets``.
    Outputs: #i: one per side packet.
    Options (mediapipe.SidePacketsToStreamsCalculatorOptions):
        vectors_of_packets: the side packets hold lists (default true).
        set_timestamp: VECTOR_INDEX (default): the place in the list. PRE_STREAM, WHOLE_STREAM: at
            PRESTREAM or POSTSTREAM. NONE: the packets' own timestamps.
        num_inputs: when given, the number of side packets and outputs there must be.

    ::

        node {
          calculator: "SidePacketsToStreamsCalculator"
          input_side_packet: "recorded_packets"
          output_stream: "packets"
        }

    Source: MediaPipe ``framework/tool/source.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(_OPTIONS)
        sides, outputs = contract.input_side_packets, contract.outputs
        contract.require(
            not options.HasField("num_inputs") or len(sides) == len(outputs) == options.num_inputs,
            "If num_inputs is specified it must be equal to the number of input side packets and "
            f"output streams. It is {options.num_inputs}; there are {len(sides)} and "
            f"{len(outputs)}.",
        )
        contract.require(
            options.vectors_of_packets or options.set_timestamp != _NONE,
            "If set_timestamp is NONE, vectors_of_packets must not be false.",
        )
        for index in range(len(sides)):
            if options.vectors_of_packets:
                sides[index].set(list[Packet])
                outputs[index].set_any()
            else:
                outputs[index].set_same_as(sides[index].set_any())

    def process(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets.in_order
        if self.options.vectors_of_packets:
            columns: list[list[Packet]] = [side.value for side in sides]
        else:
            columns = [[side] for side in sides]
        if len({len(column) for column in columns}) > 1:
            raise GraphError(
                "The specified input side packets contain vectors of different sizes: "
                f"{', '.join(str(len(column)) for column in columns)}.",
                code=Code.INVALID_ARGUMENT,
            )
        for column, output in zip(columns, cc.output_list, strict=True):
            for place, packet in enumerate(column):
                output.add_packet(self._stamped(packet, place))
        raise Stop

    def _stamped(self, packet: Packet, place: int) -> Packet:
        mode = self.options.set_timestamp
        if mode == _VECTOR_INDEX:
            return packet.at(place)
        if mode == _PRE_STREAM:
            return packet.at(Timestamp.PRESTREAM)
        if mode == _WHOLE_STREAM:
            return packet.at(Timestamp.POSTSTREAM)
        return packet
