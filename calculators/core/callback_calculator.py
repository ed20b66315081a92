"""CallbackCalculator: packets into a function of the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError


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


CALLBACKS = [CallbackCalculator, CallbackWithHeaderCalculator]
