"""Small calculators that the engine's tests share."""

from __future__ import annotations

import asyncio
from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    In,
    Options,
    Out,
    SideIn,
    SideOut,
    Stop,
    options,
)


class Forward(Calculator):
    """Forwards any packet, unchanged."""

    value = In[Any]()
    same = Out[Any](same_as=value)

    def process(self, cc: CalculatorContext) -> None:
        cc.forward(self.same, cc.packet(self.value))


class Double(Calculator):
    """Doubles an int."""

    number = In[int]()
    doubled = Out[int]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.doubled, 2 * cc.get(self.number))


class SlowDouble(Calculator):
    """`Double` as a coroutine that lets others run first."""

    number = In[int]()
    doubled = Out[int]()

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        cc.emit(self.doubled, 2 * cc.get(self.number))


class Join(Calculator):
    """Joins two inputs into the list of their values, None for a missing one."""

    left = In[Any]("LEFT")
    right = In[Any]("RIGHT")
    both = Out[list[Any]]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.both, [cc.get(self.left, None), cc.get(self.right, None)])


class CountTo(Calculator):
    """A source of 1, 2, ... N at timestamps of the same numbers."""

    limit = SideIn[int]("N")
    numbers = Out[int]()

    def open(self, cc: CalculatorContext) -> None:
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        if self._count == cc.side(self.limit):
            raise Stop
        self._count += 1
        cc.emit(self.numbers, self._count, at=self._count)


class Endless(Calculator):
    """A source that never stops by itself."""

    numbers = Out[int]()

    def open(self, cc: CalculatorContext) -> None:
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        self._count += 1
        cc.emit(self.numbers, self._count, at=self._count)


class PlusOneSide(Calculator):
    """Makes a side packet from a side packet, when the node opens."""

    given = SideIn[int]()
    made = SideOut[int]()

    def open(self, cc: CalculatorContext) -> None:
        cc.set_side(self.made, cc.side(self.given) + 1)


@options("enginetest.FailOptions")
class FailOptions:
    at: int = 0
    message: str = "as told"


class FailAt(Calculator):
    """Forwards packets, and fails at the timestamp in its options."""

    value = In[Any]()
    same = Out[Any](same_as=value)
    fail = Options(FailOptions)

    def process(self, cc: CalculatorContext) -> None:
        if cc.input_timestamp == self.fail.at:
            raise ValueError(self.fail.message)
        cc.forward(self.same, cc.packet(self.value))


SMALL_CALCULATORS = (
    Forward,
    Double,
    SlowDouble,
    Join,
    CountTo,
    Endless,
    PlusOneSide,
    FailAt,
)


def one_node(calculator: str, extra: str = "", graph: str = "") -> str:
    """Return the text of a graph of one node from stream ``in`` to stream ``out``."""
    return f"""
        input_stream: "in"
        output_stream: "out"
        {graph}
        node {{ calculator: "{calculator}" input_stream: "in" output_stream: "out" {extra} }}
    """
