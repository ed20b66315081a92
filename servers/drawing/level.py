"""One level of a drawing: cells to place and nets between them.

The direction of the streams is "along", the other one "across", so that one layout serves drawings
to the right and downwards. A subgraph is one cell of the level around it, and a level of its own
inside, so its frame holds its nodes and nothing else. Nets that cross the frame meet at a port on
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The layer of a cell: the first one, the last one, or any.
Pin = Literal["first", "last", "free"]
#: Where a cell stands in a layer that is longer.
Align = Literal["start", "middle", "end"]

Point = tuple[float, float]
#: The section and the tag of each port, of inputs and of outputs.
Sections = tuple[tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A rectangle to place. ``inputs`` and ``outputs`` are ports across, from its beginning.

    Attributes:
        length: along.
        breadth: across.
        sections: of inputs and of outputs, the section and the tag of each port, if ports may
            change places: those of a tag stay together and in order, those of a section stay
            together.
    """

    length: float
    breadth: float
    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    pin: Pin = "free"
    align: Align = "middle"
    sections: Sections = ((), ())

    @property
    def is_end(self) -> bool:
        """True for a point on a frame or on the edge of a band."""
        return self.pin != "free"


@dataclass(frozen=True, slots=True)
class End:
    """A port of a cell. ``is_back``: the line to it closes a loop."""

    cell: int
    port: int
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Net:
    """The lines of one stream: from an output to inputs.

    Attributes:
        has_drop: one more line runs from the next gap to the end of the level across.
        weight: of straight lines; side packets give way to streams.
    """

    source: End
    targets: tuple[End, ...]
    has_drop: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Level:
    """The cells and nets of one level."""

    cells: tuple[Cell, ...]
    nets: tuple[Net, ...]


@dataclass(slots=True)
class Placement:
    """A level with places.

    Attributes:
        cells: with their ports in the order that is drawn.
        starts: along and across, of each cell.
        paths: corners of the line to a target, by the indexes of net and target; the target after
            the last one is the drop.
        junctions: where lines of one net part.
    """

    length: float
    breadth: float
    cells: list[Cell]
    starts: list[Point]
    paths: dict[tuple[int, int], list[Point]]
    junctions: list[Point]

    def lines(self) -> dict[object, list[list[Point]]]:
        """Return the lines of each net."""
        found: dict[object, list[list[Point]]] = {}
        for (net, _), path in self.paths.items():
            found.setdefault(net, []).append(path)
        return found
