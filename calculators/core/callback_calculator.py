"""Packets into a function of the application, or into a list of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError
from graph_runtime.timestamp import POSTSTREAM
from protos import messages


class CallbackCalculator(Calculator):
    """Calls a function of the application with each packet.

    `CalculatorGraph.observe_output_stream` does the same without a node.

    Inputs: #0, of any type; with VECTOR_CALLBACK, any number of streams.
    Input side packets, one of the first two:
        CALLBACK: called with the `Packet` of #0.
        VECTOR_CALLBACK: called with a list of `Packet`, one per stream; empty ones where a stream
            has none.
        OBSERVE_TIMESTAMP_BOUNDS (bool, optional): true, when it is connected: call for settled
            timestamps without packets too.
    Options: none.

    ::

        node {
          calculator: "CallbackCalculator"
          input_stream: "detections"
          input_side_packet: "CALLBACK:on_detections"
        }

    Source: MediaPipe ``framework/tool/sink.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, sides = contract.inputs, contract.input_side_packets
        takes_one = sides.has_tag("CALLBACK")
        contract.require(
            takes_one != sides.has_tag("VECTOR_CALLBACK"),
            "InputSidePackets must use tags: one of CALLBACK and VECTOR_CALLBACK.",
        )
        sides["CALLBACK" if takes_one else "VECTOR_CALLBACK"].set_any()
        sides["OBSERVE_TIMESTAMP_BOUNDS"].set(bool).optional()
        contract.process_timestamp_bounds = sides.has_tag("OBSERVE_TIMESTAMP_BOUNDS")
        for index in range(1 if takes_one else inputs.num_entries("")):
            inputs[index].set_any()

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        self._takes_one = sides.has_tag("CALLBACK")
        self._callback = _callback_of(cc, "CALLBACK" if self._takes_one else "VECTOR_CALLBACK")
        if (
            sides.has_tag("OBSERVE_TIMESTAMP_BOUNDS")
            and not sides["OBSERVE_TIMESTAMP_BOUNDS"].value
        ):
            raise GraphError(
                "The value of the OBSERVE_TIMESTAMP_BOUNDS input side packet must be set to true; "
                "leave the side packet out otherwise",
                code=Code.INVALID_ARGUMENT,
            )

    def process(self, cc: CalculatorContext) -> None:
        packets = [shard.packet for shard in cc.input_list]
        self._callback(packets[0] if self._takes_one else packets)


class CallbackWithHeaderCalculator(Calculator):
    """Calls a function of the application with each packet and the stream's header.

    Inputs:
        INPUT: of any type.
        HEADER: of any type; its first packet is the header of an INPUT that has none. It must come
            before the packets of INPUT.
    Input side packets: CALLBACK: called with the `Packet` of INPUT and the header `Packet`.
    Options: none.

    ::

        node {
          calculator: "CallbackWithHeaderCalculator"
          input_stream: "INPUT:audio"
          input_stream: "HEADER:audio"
          input_side_packet: "CALLBACK:on_audio"
        }

    Source: MediaPipe ``framework/tool/sink.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["INPUT"].set_any()
        contract.inputs["HEADER"].set_any()
        contract.input_side_packets["CALLBACK"].set_any()

    def open(self, cc: CalculatorContext) -> None:
        self._callback = _callback_of(cc, "CALLBACK")
        self._header = cc.inputs["INPUT"].header

    def process(self, cc: CalculatorContext) -> None:
        packet = cc.inputs["INPUT"].packet
        if self._header.is_empty():
            if not packet.is_empty():
                raise GraphError("Header not available! It must come before the first packet.")
            self._header = cc.inputs["HEADER"].packet
        if not packet.is_empty():
            self._callback(packet, self._header)


def _callback_of(cc: CalculatorContext, tag: str) -> Callable[..., Any]:
    callback = cc.input_side_packets[tag].value
    if not callable(callback):
        raise GraphError(
            f"missing callback: the side packet {tag} is {type(callback).__name__}, not a function",
            code=Code.INVALID_ARGUMENT,
        )
    function: Callable[..., Any] = callback
    return function


class PacketSink(list[Any]):
    """A list of `Packet`, which CallbackPacketCalculator fills.

    Attributes:
        pointer: the option ``pointer`` that stands for this list, as long as it exists.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pointer = f"{id(self):#x}"
        _sinks[id(self)] = self

    def keep_last(self, packet: Any) -> None:
        """Hold this packet alone if its timestamp is the one after the stream."""
        if packet.time == POSTSTREAM:
            self[:] = [packet]


#: By the numbers in their pointers. A pointer from elsewhere must not be followed.
_sinks: Final[WeakValueDictionary[int, PacketSink]] = WeakValueDictionary()
_SINK: Final = messages.CallbackPacketCalculatorOptions


class CallbackPacketCalculator(Calculator):
    """Makes the function for CallbackCalculator that keeps packets in a list of the application.

    Output side packets: #0: a function that takes a `Packet`.
    Options (mediapipe.CallbackPacketCalculatorOptions):
        type: VECTOR_PACKET: the list gets all packets. POST_STREAM_PACKET: it holds the packet at
            the timestamp POSTSTREAM, a summary of the stream.
        pointer: `PacketSink.pointer` of the list, which lives in the same process.

    ::

        node {
          calculator: "CallbackPacketCalculator"
          output_side_packet: "keep"
          options {
            [mediapipe.CallbackPacketCalculatorOptions.ext] {
              type: VECTOR_PACKET
              pointer: "0x7f3e1c0a5b80"
            }
          }
        }

    Source: MediaPipe ``calculators/internal/callback_packet_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.require(
            contract.options(_SINK).type != _SINK.UNKNOWN,
            "the option type is VECTOR_PACKET or POST_STREAM_PACKET",
        )
        contract.output_side_packets[0].set_any()

    def open(self, cc: CalculatorContext) -> None:
        options = cc.options(_SINK)
        try:
            sink = _sinks.get(int(options.pointer, 16))
        except ValueError:
            sink = None
        if sink is None:
            raise GraphError(
                "the option pointer is not that of a PacketSink of this process",
                code=Code.INVALID_ARGUMENT,
            )
        is_last = options.type == _SINK.POST_STREAM_PACKET
        cc.output_side_packets[0].set(sink.keep_last if is_last else sink.append)


CALLBACKS = [CallbackCalculator, CallbackPacketCalculator, CallbackWithHeaderCalculator]
