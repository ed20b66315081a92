"""A directory with a graph and calculators, for a command to work on."""

from __future__ import annotations

from pathlib import Path

import pytest

CALCULATORS = '''\
from dataclasses import dataclass

from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn, SideOut, Stop, calculator


@calculator
def Double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


@calculator
def Half(number: float) -> float:
    return number / 2


@calculator
def Shout(text: str) -> str:
    print("calculators may print")
    return text.upper()


@calculator
def FailAtThree(number: int) -> int:
    if number == 3:
        raise RuntimeError("three is too much")
    return number


@dataclass
class Point:
    x: int
    y: float


class Odd:
    def __repr__(self) -> str:
        return "<Odd>"


@calculator
def Values(kind: str) -> object:
    """Values that JSON does not know."""
    return {
        "bytes": b"ab",
        "nan": float("nan"),
        "infinity": [float("inf"), float("-inf")],
        "point": Point(1, 0.5),
        "odd": Odd(),
    }[kind]


@calculator
class Counter(Calculator):
    """A source: counts to LIMIT."""

    limit = SideIn[int]("LIMIT")
    number = Out[int]()

    def open(self, cc: CalculatorContext) -> None:
        self.next = 0

    def process(self, cc: CalculatorContext) -> None:
        if self.next == cc.side(self.limit):
            raise Stop
        cc.emit(self.number, self.next, at=self.next)
        self.next += 1


@calculator
class Total(Calculator):
    """The sum of a stream as a side packet, when the graph closes."""

    number = In[int]()
    total = SideOut[int]("TOTAL")

    def open(self, cc: CalculatorContext) -> None:
        self.sum = 0

    def process(self, cc: CalculatorContext) -> None:
        self.sum += cc.get(self.number)

    def close(self, cc: CalculatorContext) -> None:
        cc.set_side(self.total, self.sum)
'''

DOUBLE = """\
input_stream: "number"
output_stream: "doubled"
node { calculator: "Double" input_stream: "number" output_stream: "doubled" }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with ``calcs.py`` and ``graph.pbtxt``, which doubles numbers."""
    (tmp_path / "calcs.py").write_text(CALCULATORS)
    (tmp_path / "graph.pbtxt").write_text(DOUBLE)
    return tmp_path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with what a server serves: see `make_site`."""
    # Not at the top: most tests of commands start no server.
    from tests.servers.cli.serving import make_site

    make_site(tmp_path)
    return tmp_path
