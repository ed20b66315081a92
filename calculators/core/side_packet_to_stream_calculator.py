"""SidePacketToStreamCalculator: side packets as packets of a stream."""

from __future__ import annotations

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Stop, Timestamp

_FIXED_TIMES = {
    "AT_PRESTREAM": Timestamp.PRESTREAM,
    "AT_POSTSTREAM": Timestamp.POSTSTREAM,
    "AT_ZERO": Timestamp(0),
}
_TICK_TAGS = ("AT_TICK", "AT_FIRST_TICK")
_TAGS = (*_FIXED_TIMES, *_TICK_TAGS, "AT_TIMESTAMP")


class SidePacketToStreamCalculator(Calculator):
    """Sends side packets into streams, at a timestamp that the output tag names.

    Inputs: TICK: of any type; with AT_TICK and AT_FIRST_TICK, and only then.
    Outputs, all with one of these tags, one per side packet:
        AT_PRESTREAM, AT_POSTSTREAM, AT_ZERO: once, at that timestamp.
        AT_TIMESTAMP: once, at the side packet TIMESTAMP.
        AT_TICK: at each TICK packet.
        AT_FIRST_TICK: at the first TICK packet; the outputs are closed then.
    Input side packets:
        #i: of any type.
        TIMESTAMP (int): with AT_TIMESTAMP, and only then.
    Options: none.

    ::

        node {
          calculator: "SidePacketToStreamCalculator"
          input_side_packet: "labels"
          input_stream: "TICK:image"
          output_stream: "AT_TICK:labels_of_image"
        }

    Source: MediaPipe ``calculators/core/side_packet_to_stream_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        tags = outputs.tags()
        contract.require(
            len(tags) == 1 and tags[0] in _TAGS,
            "Only one of AT_PRESTREAM, AT_POSTSTREAM, AT_ZERO, AT_TICK, AT_FIRST_TICK and "
            "AT_TIMESTAMP tags is allowed and required to specify output stream(s). "
            f"The tags are: {', '.join(tag or '(none)' for tag in tags) or '(no outputs)'}",
        )
        tag = tags[0]
        contract.require(
            (tag in _TICK_TAGS) == inputs.has_tag("TICK"),
            "Either both TICK input and tick (AT_TICK/AT_FIRST_TICK) output should be used or "
            f"none of them. The output tag is {tag}.",
        )
        is_at_timestamp = tag == "AT_TIMESTAMP"
        contract.require(
            is_at_timestamp == sides.has_tag("TIMESTAMP"),
            "Either both TIMESTAMP and AT_TIMESTAMP should be used or none of them. "
            f"The output tag is {tag}.",
        )
        contract.require(
            len(outputs) == len(sides) - is_at_timestamp,
            "Same number of input side packets and output streams is required. There are "
            f"{len(sides) - is_at_timestamp} side packets to send and {len(outputs)} outputs.",
        )
        for index in range(len(outputs)):
            outputs[tag, index].set_same_as(sides[index].set_any())
        if is_at_timestamp:
            sides["TIMESTAMP"].set(int)
        if tag in _TICK_TAGS:
            inputs["TICK"].set_any()
            contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._tag = cc.outputs.tags()[0]

    def process(self, cc: CalculatorContext) -> None:
        if self._tag not in _TICK_TAGS:
            raise Stop
        tick = cc.inputs["TICK"]
        if tick.is_empty() or cc.output_list[0].is_closed:
            return
        self._send(cc, tick.packet.timestamp)
        if self._tag == "AT_FIRST_TICK":
            for output in cc.output_list:
                output.close()

    def close(self, cc: CalculatorContext) -> None:
        if self._tag in _FIXED_TIMES:
            self._send(cc, _FIXED_TIMES[self._tag])
        elif self._tag == "AT_TIMESTAMP":
            self._send(cc, Timestamp(cc.input_side_packets["TIMESTAMP"].value))

    def _send(self, cc: CalculatorContext, time: Timestamp) -> None:
        for index, output in enumerate(cc.output_list):
            output.add_packet(cc.input_side_packets[index].at(time))
