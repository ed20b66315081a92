"""PassThroughCalculator: packets out as they came in."""

from __future__ import annotations

from collections.abc import Iterable

from calculators.core.headers import copy_headers
from graph_runtime import EMPTY, Calculator, CalculatorContext, CalculatorContract
from graph_runtime.language.tag_map import port_label


class PassThroughCalculator(Calculator):
    """Sends every packet and header on unchanged.

    Inputs: any number of streams of any type, with any tags.
    Outputs: the same tags and indexes; each carries what its input carries.
    Input side packets: any.
    Output side packets: none, or the same tags and indexes as the input side packets, which are
        passed on when the node opens.
    Options: none; any are accepted.

    ::

        node {
          calculator: "PassThroughCalculator"
          input_stream: "AUDIO:audio"
          input_stream: "VIDEO:video"
          output_stream: "AUDIO:audio_out"
          output_stream: "VIDEO:video_out"
        }

    Source: MediaPipe ``calculators/core/pass_through_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(
            list(inputs) == list(outputs),
            "Input and output streams to PassThroughCalculator must use matching tags and indexes. "
            f"The inputs are {_labels(inputs)}, the outputs {_labels(outputs)}.",
        )
        for key in inputs:
            outputs[key].set_same_as(inputs[key].set_any())
        side_inputs, side_outputs = contract.input_side_packets, contract.output_side_packets
        contract.require(
            not len(side_outputs) or list(side_inputs) == list(side_outputs),
            "Input and output side packets to PassThroughCalculator must use matching tags and "
            f"indexes. The inputs are {_labels(side_inputs)}, the outputs {_labels(side_outputs)}.",
        )
        for key in side_inputs:
            side_inputs[key].set_any()
        for key in side_outputs:
            side_outputs[key].set_same_as(side_inputs[key])
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._has_one_stream = len(cc.input_list) == 1
        copy_headers(cc)
        for place in cc.output_side_packets.places:
            cc.output_side_packets[place].set(cc.input_side_packets[place])

    def process(self, cc: CalculatorContext) -> None:
        # Graphs spend much of their time here, so it makes no call but the one that sends.
        if self._has_one_stream:
            packet = cc.input_list[0].packet
            if packet.payload is not EMPTY:
                cc.output_list[0].add_packet(packet)
            return
        for shard, output in zip(cc.input_list, cc.output_list, strict=True):
            packet = shard.packet
            if packet.payload is not EMPTY:
                output.add_packet(packet)


def _labels(ports: Iterable[tuple[str, int]]) -> str:
    return ", ".join(port_label(*key) for key in ports) or "none"
