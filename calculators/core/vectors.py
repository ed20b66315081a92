"""Lists in packets: joined, split, cut to size, counted.

MediaPipe instantiates a C++ template per type of elements and registers each instance under a name
of its own, such as ``SplitTensorVectorCalculator``. Here `variants` makes a class per name of one
`VectorCalculator`; the classes differ in the type of elements that their ports declare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import GenericAlias
from typing import Any, ClassVar, TypeVar

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages


class VectorCalculator(Calculator):
    """Base of calculators on lists (MediaPipe's ``std::vector<T>``).

    A subclass, or a variant made by `variants`, declares the type of the elements::

        class EndLoopWordCalculator(EndLoopCalculator):
            element_type = Word
    """

    #: The Python type of one element; Any: not checked.
    element_type: ClassVar[Any] = Any

    @classmethod
    def list_type(cls) -> Any:
        """Return the packet type of a list of elements."""
        return GenericAlias(list, (cls.element_type,))


V = TypeVar("V", bound=VectorCalculator)


def variants(base: type[V], element_types: Mapping[str, Any]) -> list[type[V]]:
    """``base`` under its own name, for any element, and once per (name, element type)."""
    made = [
        type(
            name,
            (base,),
            {
                "element_type": element_type,
                "__doc__": base.__doc__,
                "__module__": base.__module__,
            },
        )
        for name, element_type in element_types.items()
    ]
    return [base, *made]


class ClipVectorSizeCalculator(VectorCalculator):
    """Keeps the first elements of each list.

    Inputs: #0: list of the variant's element type.
    Outputs: #0: the same list, or its first ``max_vec_size`` elements.
    Input side packets: #0 (int, optional): in place of the option.
    Options (mediapipe.ClipVectorSizeCalculatorOptions):
        max_vec_size: at least 1, default 1.

    Variants: ClipDetectionVectorSizeCalculator, ClipNormalizedRectVectorSizeCalculator.
    ClipVectorSizeCalculator takes lists of anything.

    ::

        node {
          calculator: "ClipDetectionVectorSizeCalculator"
          input_stream: "detections"
          output_stream: "first_detections"
          options { [mediapipe.ClipVectorSizeCalculatorOptions.ext] { max_vec_size: 5 } }
        }

    Source: MediaPipe ``calculators/core/clip_vector_size_calculator.h``.
    """

    options = Options(messages.ClipVectorSizeCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        limit = contract.options(messages.ClipVectorSizeCalculatorOptions).max_vec_size
        contract.require(limit >= 1, _too_small(limit))
        contract.inputs[0].set(cls.list_type())
        contract.outputs[0].set(cls.list_type())
        contract.input_side_packets[0].set(int).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        side = cc.input_side_packets.get(0)
        self._limit: int = self.options.max_vec_size if side is None else side.value
        if self._limit < 1:
            raise GraphError(_too_small(self._limit), code=Code.INTERNAL)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs[0].is_empty():
            items: list[Any] = cc.inputs[0].value
            cc.outputs[0].add(items[: self._limit], cc.input_timestamp)


def _too_small(limit: int) -> str:
    return f"max_vec_size should be greater than or equal to 1. It is {limit}."


CLIP_VECTOR_SIZE = variants(
    ClipVectorSizeCalculator,
    {"ClipDetectionVectorSizeCalculator": Any, "ClipNormalizedRectVectorSizeCalculator": Any},
)


class ConcatenateVectorCalculator(VectorCalculator):
    """Joins lists and single elements of the same timestamp into one list, in stream order.

    Inputs: #i: at least one; a list of the variant's element type, or one element.
    Outputs: #0: the list. Inputs without a packet are left out.
    Options (mediapipe.ConcatenateVectorCalculatorOptions):
        only_emit_if_all_present: send nothing where an input has no packet.

    Variants check the element type: ConcatenateFloatVectorCalculator and so on.
    ConcatenateVectorCalculator joins anything.

    ::

        node {
          calculator: "ConcatenateFloatVectorCalculator"
          input_stream: "scores"
          input_stream: "another_score"
          output_stream: "all_scores"
        }

    Source: MediaPipe ``calculators/core/concatenate_vector_calculator.h``.
    """

    options = Options(messages.ConcatenateVectorCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count >= 1, "there must be at least one input stream (without a tag)")
        for index in range(count):
            if cls.element_type is Any:
                contract.inputs[index].set_any()
            else:
                contract.inputs[index].set_one_of(cls.element_type, cls.list_type())
        contract.outputs[0].set(cls.list_type())
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._needs_all = self.options.only_emit_if_all_present

    def process(self, cc: CalculatorContext) -> None:
        joined: list[Any] = []
        for shard in cc.input_list:
            if not shard.is_empty():
                value = shard.value
                if isinstance(value, list):
                    joined += value
                else:
                    joined.append(value)
            elif self._needs_all:
                return
        cc.outputs[0].add(joined, cc.input_timestamp)


CONCATENATE_VECTORS = variants(
    ConcatenateVectorCalculator,
    {
        "ConcatenateBoolVectorCalculator": bool,
        "ConcatenateFloatVectorCalculator": float,
        "ConcatenateInt32VectorCalculator": int,
        "ConcatenateUInt64VectorCalculator": int,
        "ConcatenateStringVectorCalculator": str,
        "ConcatenateClassificationListVectorCalculator": Any,
        "ConcatenateDetectionVectorCalculator": Any,
        "ConcatenateImageVectorCalculator": Any,
        # The name without "k" is MediaPipe's, which keeps it for old graphs.
        "ConcatenateLandmarListVectorCalculator": Any,
        "ConcatenateLandmarkListVectorCalculator": Any,
        "ConcatenateLandmarkVectorCalculator": Any,
        "ConcatenateNormalizedLandmarkListVectorCalculator": Any,
        "ConcatenateRenderDataVectorCalculator": Any,
        "ConcatenateTensorVectorCalculator": Any,
        "ConcatenateTfLiteTensorVectorCalculator": Any,
    },
)


@dataclass(frozen=True)
class SplitRanges:
    """The elements that each output gets. Each range is begin <= place < end."""

    ranges: tuple[tuple[int, int], ...]
    combines: bool
    sends_elements: bool

    @staticmethod
    def of(options: messages.SplitVectorCalculatorOptions) -> SplitRanges:
        """Read a ``SplitVectorCalculatorOptions`` message."""
        return SplitRanges(
            tuple((each.begin, each.end) for each in options.ranges),
            options.combine_outputs,
            options.element_only and not options.combine_outputs,
        )

    def check(self, contract: CalculatorContract) -> None:
        """Refuse a node whose inputs and outputs do not fit the ranges."""
        count = len(contract.outputs)
        contract.require(
            len(contract.inputs) == 1 and count > 0,
            "there must be one input stream and at least one output stream; there are "
            f"{len(contract.inputs)} and {count}",
        )
        if self.combines:
            contract.require(
                count == 1, f"with combine_outputs there must be one output stream, not {count}"
            )
            self._check_overlap(contract)
            return
        contract.require(
            count == len(self.ranges),
            "The number of output streams should match the number of ranges specified in the "
            f"CalculatorOptions. There are {count} streams and {len(self.ranges)} ranges.",
        )
        for begin, end in self.ranges:
            contract.require(
                0 <= begin < end,
                "Indices should be non-negative and begin index should be less than the end "
                f"index. A range has begin {begin} and end {end}.",
            )
            contract.require(
                not self.sends_elements or end - begin == 1,
                "Since element_only is true, all ranges should be of size 1. A range has begin "
                f"{begin} and end {end}.",
            )

    def _check_overlap(self, contract: CalculatorContract) -> None:
        ordered = sorted(self.ranges)
        for (begin, end), (next_begin, next_end) in pairwise(ordered):
            contract.require(
                next_begin >= end,
                "Ranges must be non-overlapping when using combine_outputs option. These overlap: "
                f"{begin} to {end} and {next_begin} to {next_end}.",
            )

    def parts(self, items: Sequence[Any]) -> list[list[Any]]:
        """Return the elements of each range; in one list with ``combine_outputs``.

        Raises:
            GraphError: ``items`` is too short.
        """
        self.check_length(len(items))
        parts = [list(items[begin:end]) for begin, end in self.ranges]
        return [[item for part in parts for item in part]] if self.combines else parts

    def check_length(self, length: int) -> None:
        """Raise GraphError if a list of ``length`` elements is too short."""
        needed = max((end for _, end in self.ranges), default=0)
        if length < needed:
            raise GraphError(
                f"Max range end {needed} exceeds list size {length}", code=Code.INTERNAL
            )

    def groups(self) -> list[tuple[tuple[int, int], ...]]:
        """Return the ranges of each output."""
        return [self.ranges] if self.combines else [(each,) for each in self.ranges]


class SplitVectorCalculator(VectorCalculator):
    """Sends ranges of each list to its outputs.

    Inputs: #0: list of the variant's element type, long enough for all ranges.
    Outputs: #i: one per range.
    Options (mediapipe.SplitVectorCalculatorOptions):
        ranges: repeated; ``begin`` and ``end``, the end not included.
        element_only: every range has one element, and outputs carry it and not a list.
        combine_outputs: one output that gets all ranges in one list; they must not overlap.

    Variants check the element type: SplitFloatVectorCalculator and so on. SplitVectorCalculator
    takes lists of anything.

    ::

        node {
          calculator: "SplitFloatVectorCalculator"
          input_stream: "numbers"
          output_stream: "first"
          output_stream: "next_three"
          options {
            [mediapipe.SplitVectorCalculatorOptions.ext] {
              ranges { begin: 0 end: 1 }
              ranges { begin: 1 end: 4 }
            }
          }
        }

    Source: MediaPipe ``calculators/core/split_vector_calculator.h``.
    """

    options = Options(messages.SplitVectorCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        ranges = SplitRanges.of(contract.options(messages.SplitVectorCalculatorOptions))
        ranges.check(contract)
        contract.inputs[0].set(cls.list_type())
        for index in range(len(contract.outputs)):
            contract.outputs[index].set(
                cls.element_type if ranges.sends_elements else cls.list_type()
            )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._ranges = SplitRanges.of(self.options)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[0].is_empty():
            return
        parts = self._ranges.parts(cc.inputs[0].value)
        for part, output in zip(parts, cc.output_list, strict=True):
            output.add(part[0] if self._ranges.sends_elements else part, cc.input_timestamp)


SPLIT_VECTORS = variants(
    SplitVectorCalculator,
    {
        "SplitFloatVectorCalculator": float,
        "SplitUint64tVectorCalculator": int,
        "SplitAffineMatrixVectorCalculator": Any,
        "SplitClassificationListVectorCalculator": Any,
        "SplitDetectionVectorCalculator": Any,
        "SplitImageVectorCalculator": Any,
        "SplitLandmarkVectorCalculator": Any,
        "SplitMatrixVectorCalculator": Any,
        "SplitNormalizedLandmarkListVectorCalculator": Any,
        "SplitNormalizedRectVectorCalculator": Any,
        "SplitTensorVectorCalculator": Any,
        "SplitTfLiteTensorVectorCalculator": Any,
        "MovableSplitImageFrameVectorCalculator": Any,
    },
)


class GetVectorItemCalculator(VectorCalculator):
    """Sends the element of each list that an index points at.

    Inputs:
        VECTOR: list of the variant's element type.
        INDEX (int, optional): the place, from 0. Wins over the option.
    Outputs: ITEM: the element. Nothing where there is no list, or no index at all.
    Options (mediapipe.GetVectorItemCalculatorOptions):
        item_index: the place where INDEX has no packet; must be given when INDEX is not connected.
        output_empty_on_oob: beyond the end of the list, send nothing; otherwise that is an error.

    Variants: GetDetectionVectorItemCalculator, GetRectVectorItemCalculator and so on.
    GetVectorItemCalculator takes lists of anything.

    ::

        node {
          calculator: "GetDetectionVectorItemCalculator"
          input_stream: "VECTOR:detections"
          output_stream: "ITEM:best_detection"
          options { [mediapipe.GetVectorItemCalculatorOptions.ext] { item_index: 0 } }
        }

    Source: MediaPipe ``calculators/core/get_vector_item_calculator.h``.
    """

    options = Options(messages.GetVectorItemCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.inputs["INDEX"].set(int).optional()
        contract.outputs["ITEM"].set(cls.element_type)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._has_index = cc.inputs.has_tag("INDEX")
        self._default: int | None = None
        if self.options.HasField("item_index"):
            self._default = self.options.item_index
        elif not self._has_index:
            raise GraphError(
                "there is no index: connect the input stream INDEX, or set item_index in "
                "GetVectorItemCalculatorOptions",
                code=Code.INTERNAL,
            )

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["VECTOR"].is_empty():
            return
        items: list[Any] = cc.inputs["VECTOR"].value
        index = self._default
        if self._has_index and not cc.inputs["INDEX"].is_empty():
            index = cc.inputs["INDEX"].value
        if index is None:
            return
        if index < 0 or (index >= len(items) and not self.options.output_empty_on_oob):
            raise GraphError(
                f"index {index} is out of range: the list has {len(items)} elements",
                code=Code.INTERNAL,
            )
        if index < len(items):
            cc.outputs["ITEM"].add(items[index], cc.input_timestamp)


GET_VECTOR_ITEM = variants(
    GetVectorItemCalculator,
    {
        "GetClassificationListVectorItemCalculator": Any,
        "GetDetectionVectorItemCalculator": Any,
        "GetLandmarkListVectorItemCalculator": Any,
        "GetNormalizedLandmarkListVectorItemCalculator": Any,
        "GetNormalizedRectVectorItemCalculator": Any,
        "GetRectVectorItemCalculator": Any,
    },
)


class VectorSizeCalculator(VectorCalculator):
    """Sends the number of elements of each list.

    Inputs: VECTOR: list of the variant's element type.
    Outputs: SIZE (int).
    Options: none.

    Variants: LandmarkListVectorSizeCalculator, ClassificationListVectorSizeCalculator.
    VectorSizeCalculator takes lists of anything.

    ::

        node {
          calculator: "VectorSizeCalculator"
          input_stream: "VECTOR:detections"
          output_stream: "SIZE:detection_count"
        }

    Source: MediaPipe ``calculators/core/vector_size_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.outputs["SIZE"].set(int)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["VECTOR"].is_empty():
            cc.outputs["SIZE"].add(len(cc.inputs["VECTOR"].value), cc.input_timestamp)


VECTOR_SIZES = variants(
    VectorSizeCalculator,
    {"ClassificationListVectorSizeCalculator": Any, "LandmarkListVectorSizeCalculator": Any},
)


class VectorIndicesCalculator(VectorCalculator):
    """Sends, for each list, the list 0, 1, ... of its places: for a loop over them.

    Inputs: VECTOR: list of the variant's element type.
    Outputs: INDICES (list[int]).
    Options: none.

    Variants: IntVectorIndicesCalculator, Uint64tVectorIndicesCalculator,
    NormalizedLandmarkListVectorIndicesCalculator. VectorIndicesCalculator takes lists of anything.

    ::

        node {
          calculator: "IntVectorIndicesCalculator"
          input_stream: "VECTOR:tokens"
          output_stream: "INDICES:places"
        }

    Source: MediaPipe ``calculators/core/vector_indices_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.outputs["INDICES"].set(list[int])
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["VECTOR"].is_empty():
            places = list(range(len(cc.inputs["VECTOR"].value)))
            cc.outputs["INDICES"].add(places, cc.input_timestamp)


VECTOR_INDICES = variants(
    VectorIndicesCalculator,
    {
        "IntVectorIndicesCalculator": int,
        "Uint64tVectorIndicesCalculator": int,
        "NormalizedLandmarkListVectorIndicesCalculator": Any,
    },
)


class MergeToVectorCalculator(VectorCalculator):
    """Makes a list of the packets of the same timestamp, in stream order.

    Inputs: #i: at least one; the variant's element type.
    Outputs: #0: list. Inputs without a packet are left out.
    Options: none.

    Variants: MergeDetectionsToVectorCalculator, MergeImagesToVectorCalculator.
    MergeToVectorCalculator takes anything.

    ::

        node {
          calculator: "MergeDetectionsToVectorCalculator"
          input_stream: "face"
          input_stream: "hand"
          output_stream: "detections"
        }

    Source: MediaPipe ``calculators/core/merge_to_vector_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count > 0, "Needs at least one input stream")
        for index in range(count):
            contract.inputs[index].set(cls.element_type)
        contract.outputs[0].set(cls.list_type())
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        items = [shard.value for shard in cc.input_list if not shard.is_empty()]
        cc.outputs[0].add(items, cc.input_timestamp)


MERGE_TO_VECTOR = variants(
    MergeToVectorCalculator,
    {"MergeDetectionsToVectorCalculator": Any, "MergeImagesToVectorCalculator": Any},
)
