"""ConcatenateProtoList calculators: several list messages as one."""

from __future__ import annotations

from typing import Any

from calculators.core.proto_list import ArrayList, ProtoListCalculator, proto_list_variants
from graph_runtime import CalculatorContext, CalculatorContract, In, Options, Out


class ConcatenateProtoListCalculator(ProtoListCalculator):
    """Joins the list messages of the same timestamp into one, in stream order.

    For messages with one repeated field: ConcatenateLandmarkListCalculator,
    ConcatenateNormalizedLandmarkListCalculator, ConcatenateClassificationListCalculator,
    ConcatenateJointListCalculator.

    Inputs: #i: at least one; list messages of one type.
    Outputs: #0: a message of that type. Inputs without a packet are left out.
    Options (mediapipe.ConcatenateVectorCalculatorOptions):
        only_emit_if_all_present: send nothing where an input has no packet.

    ::

        node {
          calculator: "ConcatenateLandmarkListCalculator"
          input_stream: "left_landmarks"
          input_stream: "right_landmarks"
          output_stream: "all_landmarks"
        }

    Source: MediaPipe ``calculators/core/concatenate_proto_list_calculator.cc``.
    """

    inputs = In[Any](multiple=True)
    output = Out[Any](same_as=inputs)
    options = Options("mediapipe.ConcatenateVectorCalculatorOptions")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        for index in range(1, contract.inputs.num_entries("")):
            contract.inputs[index].set_same_as(contract.inputs[0])

    def open(self, cc: CalculatorContext) -> None:
        self._needs_all = self.options.only_emit_if_all_present

    def process(self, cc: CalculatorContext) -> None:
        messages = [shard.value for shard in cc.input_list if not shard.is_empty()]
        if not messages or (self._needs_all and len(messages) < len(cc.input_list)):
            return
        if all(isinstance(message, ArrayList) for message in messages):
            cc.emit(self.output, type(messages[0]).joined(messages))
            return
        items = [item for message in messages for item in self.items_of(message)]
        cc.emit(self.output, self.message_of(type(messages[0]), items))


CONCATENATE_PROTO_LISTS = proto_list_variants(
    ConcatenateProtoListCalculator,
    {
        "ConcatenateClassificationListCalculator": "classification",
        "ConcatenateJointListCalculator": "joint",
        "ConcatenateLandmarkListCalculator": "landmark",
        "ConcatenateNormalizedLandmarkListCalculator": "landmark",
    },
)
