"""BypassCalculator: stands in for a part of the graph that is switched off."""

from __future__ import annotations

from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Options,
    Timestamp,
    parse_tag_index,
)
from graph_runtime import timestamp as ts


class BypassCalculator(Calculator):
    """Drops its inputs and sends only timestamp bounds, except on the streams that it passes.

    Made to be a ``contained_node`` of SwitchContainer, with the ports of the other nodes there.

    Inputs, outputs: any, with any tags and types.
    Input side packets: any.
    Options (mediapipe.BypassCalculatorOptions):
        pass_input_stream, pass_output_stream: "TAG" or "TAG:index" of streams to pass, in pairs.

    ::

        node {
          calculator: "BypassCalculator"
          input_stream: "IMAGE:image"
          input_stream: "FACES:faces"
          output_stream: "FACES:faces_out"
          output_stream: "GAZE:gaze"
          node_options {
            [type.googleapis.com/mediapipe.BypassCalculatorOptions] {
              pass_input_stream: "FACES"
              pass_output_stream: "FACES"
            }
          }
        }

    Source: MediaPipe ``calculators/core/bypass_calculator.cc``.
    """

    options = Options("mediapipe.BypassCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options("mediapipe.BypassCalculatorOptions")
        contract.require(
            len(options.pass_input_stream) == len(options.pass_output_stream),
            f"there are {len(options.pass_input_stream)} pass_input_stream and "
            f"{len(options.pass_output_stream)} pass_output_stream; they must be pairs",
        )
        for types in (contract.inputs, contract.outputs, contract.input_side_packets):
            for key in types:
                types[key].set_any()
        for source, target in _pairs(options):
            contract.outputs[target].set_same_as(contract.inputs[source].set_any())
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._pairs = _pairs(self.options)
        passed = {target for _, target in self._pairs}
        self._settled = [place for place in cc.outputs.places if place not in passed]

    def process(self, cc: CalculatorContext) -> None:
        for source, target in self._pairs:
            packet = cc.inputs[source].packet
            if packet.time == cc.time:
                cc.outputs[target].add_packet(packet)
        bound = Timestamp.of(ts.next_allowed_in_stream(cc.time))
        for place in self._settled:
            output = cc.outputs[place]
            output.set_next_timestamp_bound(max(output.next_timestamp_bound, bound))

    def close(self, cc: CalculatorContext) -> None:
        for output in cc.output_list:
            output.close()


def _pairs(options: Any) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """The (tag, index) of each input to pass, and of its output."""
    return [
        (parse_tag_index(source), parse_tag_index(target))
        for source, target in zip(
            options.pass_input_stream, options.pass_output_stream, strict=True
        )
    ]
