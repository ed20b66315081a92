"""Messages that are lists, such as ``LandmarkList``: joined and split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from calculators.core.vectors import SplitRanges
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Options, Out
from protos import messages


@runtime_checkable
class ArrayList(Protocol):
    """A packet that stands for a list message and holds an array, such as `Landmarks`."""

    def __len__(self) -> int: ...

    def selected(self, ranges: Sequence[tuple[int, int]]) -> Self:
        """Return the elements of these ranges, each begin <= place < end."""

    @classmethod
    def joined(cls, lists: Sequence[Self]) -> Self:
        """Return all elements of several lists."""


class ProtoListCalculator(Calculator):
    """Base of calculators on messages with one repeated field."""

    #: The name of the repeated field.
    field: ClassVar[str] = ""

    def items_of(self, message: Any) -> Any:
        """Return the elements of a list message."""
        return getattr(message, self.field)

    def message_of(self, kind: type, items: Iterable[Any]) -> Any:
        """A new list message of type ``kind``."""
        message = kind()
        self.items_of(message).extend(items)
        return message


P = TypeVar("P", bound=ProtoListCalculator)


def proto_list_variants(base: type[P], fields: Mapping[str, str]) -> list[type[P]]:
    """``base`` once per (name, repeated field)."""
    return [
        type(
            name,
            (base,),
            {"field": field, "__doc__": base.__doc__, "__module__": base.__module__},
        )
        for name, field in fields.items()
    ]


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
    options = Options(messages.ConcatenateVectorCalculatorOptions)

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

    options = Options(messages.SplitVectorCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        SplitRanges.of(contract.options(messages.SplitVectorCalculatorOptions)).check(contract)
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
