"""SplitProtoList calculators: parts of a list message as streams of their own."""

from __future__ import annotations

from calculators.core.proto_list import ArrayList, ProtoListCalculator, proto_list_variants
from calculators.core.split_ranges import SplitRanges
from graph_runtime import CalculatorContext, CalculatorContract, Options


class SplitProtoListCalculator(ProtoListCalculator):
    """Sends ranges of each list message to its outputs.

    For messages with one repeated field: SplitLandmarkListCalculator,
    SplitNormalizedLandmarkListCalculator, SplitJointListCalculator.

    Inputs: #0: a list message, long enough for all ranges.
    Outputs: #i: one per range, a message of the same type.
    Options (mediapipe.SplitVectorCalculatorOptions):
        ranges: repeated; ``begin`` and ``end``, the end not included.
        element_only: every range has one element, and outputs carry it and not a list.
        combine_outputs: one output that gets all ranges in one message; they must not overlap.

    ::

        node {
          calculator: "SplitNormalizedLandmarkListCalculator"
          input_stream: "hand"
          output_stream: "thumb"
          options {
            [mediapipe.SplitVectorCalculatorOptions.ext] { ranges { begin: 1 end: 5 } }
          }
        }

    Source: MediaPipe ``calculators/core/split_proto_list_calculator.cc``.
    """

    options = Options("mediapipe.SplitVectorCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        SplitRanges.of(contract.options("mediapipe.SplitVectorCalculatorOptions")).check(contract)
        contract.inputs[0].set_any()
        for index in range(len(contract.outputs)):
            contract.outputs[index].set_any()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._ranges = SplitRanges.of(self.options)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[0].is_empty():
            return
        message = cc.inputs[0].value
        if isinstance(message, ArrayList):
            self._ranges.check_length(len(message))
            for ranges, output in zip(self._ranges.groups(), cc.output_list, strict=True):
                found = message.selected(ranges)
                is_element = self._ranges.sends_elements
                output.add(self.items_of(found)[0] if is_element else found, cc.input_timestamp)
            return
        for part, output in zip(
            self._ranges.parts(self.items_of(message)), cc.output_list, strict=True
        ):
            sends_element = self._ranges.sends_elements
            value = part[0] if sends_element else self.message_of(type(message), part)
            output.add(value, cc.input_timestamp)


SPLIT_PROTO_LISTS = proto_list_variants(
    SplitProtoListCalculator,
    {
        "SplitJointListCalculator": "joint",
        "SplitLandmarkListCalculator": "landmark",
        "SplitNormalizedLandmarkListCalculator": "landmark",
    },
)
