"""The ranges of SplitVectorCalculatorOptions, and their effect on a node's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from graph_runtime import CalculatorContract, Code, GraphError


@dataclass(frozen=True)
class SplitRanges:
    """The elements that each output gets. Each range is begin <= place < end."""

    ranges: tuple[tuple[int, int], ...]
    combines: bool
    sends_elements: bool

    @staticmethod
    def of(options: Any) -> SplitRanges:
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
        """The elements of each range; in one list with ``combine_outputs``.

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
        """The ranges of each output."""
        return [self.ranges] if self.combines else [(each,) for each in self.ranges]
