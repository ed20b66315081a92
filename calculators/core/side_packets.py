"""Side packets: made of constants and texts, given a default, turned into streams and back."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Options,
    Out,
    Packet,
    SideIn,
    SideOut,
    Stop,
    Timestamp,
)
from protos import messages


def require_one_place(contract: CalculatorContract, tag: str) -> None:
    """Refuse a node without exactly one of an input stream and a side packet of this tag."""
    is_stream = contract.inputs.has_tag(tag)
    is_side_packet = contract.input_side_packets.has_tag(tag)
    contract.require(
        not (is_stream and is_side_packet),
        f"{tag} can be connected as a stream or as a side packet, but not both",
    )
    contract.require(
        is_stream or is_side_packet,
        f"{tag} must be connected, as an input stream or as an input side packet",
    )


#: The repeated field of each list message of the options, and the type of the list.
_LISTS: dict[str, tuple[str, Any]] = {
    "string_vector_value": ("string_value", list[str]),
    "float_vector_value": ("float_value", list[float]),
    "int_vector_value": ("int_value", list[int]),
}


class ConstantSidePacketCalculator(Calculator):
    """Makes side packets of the values in its options.

    Output side packets: PACKET:i: one per ``packet`` of the options, of the type of its value.
    Options (mediapipe.ConstantSidePacketCalculatorOptions):
        packet: repeated; one of int_value, uint64_value, int64_value, float_value, double_value,
            bool_value, string_value, string_vector_value, float_vector_value, int_vector_value
            (lists), classification_list_value, landmark_list_value, time_series_header_value,
            matrix_data_value (the messages themselves).

    ::

        node {
          calculator: "ConstantSidePacketCalculator"
          output_side_packet: "PACKET:0:top_k"
          output_side_packet: "PACKET:1:labels"
          options {
            [mediapipe.ConstantSidePacketCalculatorOptions.ext] {
              packet { int_value: 5 }
              packet { string_vector_value { string_value: ["cat", "dog"] } }
            }
          }
        }

    Source: MediaPipe ``calculators/core/constant_side_packet_calculator.cc``.
    """

    options = Options(messages.ConstantSidePacketCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        constants = contract.options(messages.ConstantSidePacketCalculatorOptions).packet
        outputs = contract.output_side_packets
        count = outputs.num_entries("PACKET")
        contract.require(
            count == len(constants),
            "Number of output side packets has to be same as number of packets configured in "
            f"options. There are {count} side packets and {len(constants)} in the options.",
        )
        for index, constant in enumerate(constants):
            contract.require(
                constant.WhichOneof("value") is not None,
                f"None of supported values were specified in options: packet {index} is empty.",
            )
            outputs["PACKET", index].set(_type_of(constant))

    def open(self, cc: CalculatorContext) -> None:
        for index, constant in enumerate(self.options.packet):
            cc.output_side_packets["PACKET", index].set(_value_of(constant))


def _value_of(constant: Any) -> Any:
    field = constant.WhichOneof("value")
    value = getattr(constant, field)
    return list(getattr(value, _LISTS[field][0])) if field in _LISTS else value


def _type_of(constant: Any) -> Any:
    field = constant.WhichOneof("value")
    if field in _LISTS:
        return _LISTS[field][1]
    return type(getattr(constant, field))


class DefaultSidePacketCalculator(Calculator):
    """Passes a side packet on, or a default where the application gives none.

    Input side packets:
        OPTIONAL_VALUE (optional): of the type of DEFAULT_VALUE.
        DEFAULT_VALUE: of any type.
    Output side packets: VALUE.
    Options: none.

    ::

        node {
          calculator: "DefaultSidePacketCalculator"
          input_side_packet: "OPTIONAL_VALUE:limit"
          input_side_packet: "DEFAULT_VALUE:limit_by_default"
          output_side_packet: "VALUE:limit_to_use"
        }

    Source: MediaPipe ``calculators/core/default_side_packet_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        sides = contract.input_side_packets
        contract.require(sides.has_tag("DEFAULT_VALUE"), "Default value must be provided")
        default = sides["DEFAULT_VALUE"].set_any()
        sides["OPTIONAL_VALUE"].set_same_as(default).optional()
        contract.output_side_packets["VALUE"].set_same_as(default)

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        chosen = "OPTIONAL_VALUE" if sides.has_tag("OPTIONAL_VALUE") else "DEFAULT_VALUE"
        cc.output_side_packets["VALUE"].set(sides[chosen])


_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*\Z")


class StringToIntCalculator(Calculator):
    """Reads the decimal integer in a string side packet, or fails the run.

    Variants differ in the range they accept: StringToIntCalculator and StringToInt32Calculator
    (-2^31 to 2^31 - 1), StringToUintCalculator and StringToUint32Calculator (0 to 2^32 - 1),
    StringToInt64Calculator, StringToUint64Calculator.

    Input side packets: #0 (str): digits, perhaps with a sign and white space around.
    Output side packets: #0 (int).
    Options: none.

    ::

        node {
          calculator: "StringToIntCalculator"
          input_side_packet: "limit_text"
          output_side_packet: "limit"
        }

    Source: MediaPipe ``calculators/core/string_to_int_calculator.cc``.
    """

    text = SideIn[str]()
    number = SideOut[int]()

    #: lowest <= number < end
    lowest: ClassVar[int] = -(2**31)
    end: ClassVar[int] = 2**31

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        text = cc.side(self.text)
        # 64 bits have 20 digits; int() of a huge text would be slow.
        match = _NUMBER.match(text) if len(text) < 100 else None
        number = int(match.group(1)) if match else None
        if number is None or not self.lowest <= number < self.end:
            raise GraphError(
                f"The string could not be parsed as an integer: {text[:100]!r}. It must be a "
                f"decimal number from {self.lowest} to {self.end - 1}.",
                code=Code.INVALID_ARGUMENT,
            )
        cc.set_side(self.number, number)


class StringToInt32Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__


class StringToUintCalculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = 0
    end = 2**32


class StringToUint32Calculator(StringToUintCalculator):
    __doc__ = StringToIntCalculator.__doc__


class StringToInt64Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = -(2**63)
    end = 2**63


class StringToUint64Calculator(StringToIntCalculator):
    __doc__ = StringToIntCalculator.__doc__
    lowest = 0
    end = 2**64


STRING_TO_INT = [
    StringToIntCalculator,
    StringToInt32Calculator,
    StringToUintCalculator,
    StringToUint32Calculator,
    StringToInt64Calculator,
    StringToUint64Calculator,
]


_FIXED_TIMES = {
    "AT_PRESTREAM": Timestamp.PRESTREAM,
    "AT_POSTSTREAM": Timestamp.POSTSTREAM,
    "AT_ZERO": Timestamp(0),
}
_TICK_TAGS = ("AT_TICK", "AT_FIRST_TICK")
_TIME_TAGS = (*_FIXED_TIMES, *_TICK_TAGS, "AT_TIMESTAMP")


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
            len(tags) == 1 and tags[0] in _TIME_TAGS,
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


_STREAMS_OPTIONS = messages.SidePacketsToStreamsCalculatorOptions
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

    options = Options(_STREAMS_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(_STREAMS_OPTIONS)
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
