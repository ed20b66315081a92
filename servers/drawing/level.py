"""One level of a drawing: cells to place and links between them.

A subgraph is one cell of the level around it, and a level of its own inside, so its frame holds its
nodes and nothing else. Links that cross the frame meet at a socket on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from servers.drawing.diagram import Diagram, Edge

#: The layer of a cell: the first one, the last one, or any.
Pin = Literal["top", "bottom", "free"]


@dataclass(frozen=True)
class Cell:
    """A rectangle to place. ``tops`` and ``bottoms`` are the x of its sockets, from its left."""

    key: str
    width: float
    height: float
    tops: tuple[float, ...]
    bottoms: tuple[float, ...]
    pin: Pin = "free"


@dataclass(frozen=True)
class Link:
    """A line from a bottom socket to a top socket, for ``edge``.

    ``is_back``: the line runs up, around the side.
    """

    source: int
    source_place: int
    target: int
    target_place: int
    edge: Edge
    is_back: bool

    @property
    def ends(self) -> tuple[int, int, int, int]:
        return (self.source, self.source_place, self.target, self.target_place)


@dataclass(frozen=True)
class Level:
    """The cells and links of one level.

    ``inlets`` and ``outlets`` are the sockets on the frame, as (box, place) of the producer.
    """

    cells: tuple[Cell, ...]
    links: tuple[Link, ...]
    inlets: tuple[tuple[str, int], ...] = ()
    outlets: tuple[tuple[str, int], ...] = ()


@dataclass
class LevelBuilder:
    """Collects the level of one group (a path of subgraph nodes; the graph itself is ``()``)."""

    diagram: Diagram
    group: tuple[str, ...]
    cells: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._groups = {box.key: box.group for box in self.diagram.boxes}
        self._places: dict[str, int] = {}
        self._children: dict[tuple[str, ...], int] = {}
        self._child_levels: dict[tuple[str, ...], Level] = {}

    def add_box(self, cell: Cell) -> None:
        self._places[cell.key] = len(self.cells)
        self.cells.append(cell)

    def add_group(self, path: tuple[str, ...], level: Level, cell: Cell) -> None:
        self._children[path] = len(self.cells)
        self._child_levels[path] = level
        self.cells.append(cell)

    def build(self) -> Level:
        """Return the level, with a cell on the frame for each stream that crosses it."""
        crossing = [edge for edge in self.diagram.edges if self._crosses(edge)]
        inlets = _unique(edge for edge in crossing if not self._is_inside(edge.source))
        outlets = _unique(edge for edge in crossing if self._is_inside(edge.source))
        first = len(self.cells)
        cells = [*self.cells]
        cells += [Cell(f"inlet:{i}", 1, 0, (), (0.5,), "top") for i in range(len(inlets))]
        cells += [Cell(f"outlet:{i}", 1, 0, (0.5,), (), "bottom") for i in range(len(outlets))]
        links: dict[tuple[int, int, int, int], Link] = {}
        for edge in self.diagram.edges:
            key = (edge.source, edge.source_place)
            if self._is_inside(edge.source):
                source = self._end(edge.source, edge.source_place, key, is_source=True)
            elif key in inlets:
                source = (first + inlets.index(key), 0)
            else:
                continue
            if self._is_inside(edge.target):
                target = self._end(edge.target, edge.target_place, key, is_source=False)
            elif key in outlets:
                target = (first + len(inlets) + outlets.index(key), 0)
            else:
                continue
            if source[0] == target[0] and source[0] not in self._places.values():
                continue  # inside a child
            is_back = edge.is_back_edge and max(source[0], target[0]) < first
            link = Link(*source, *target, edge, is_back)
            if link.ends not in links or not is_back:
                links[link.ends] = link
        return Level(tuple(cells), tuple(links.values()), tuple(inlets), tuple(outlets))

    def _end(
        self, box: str, place: int, key: tuple[str, int], *, is_source: bool
    ) -> tuple[int, int]:
        """Return the cell and the socket of a box's socket at this level."""
        own = self._places.get(box)
        if own is not None:
            return own, place
        child = self._groups[box][: len(self.group) + 1]
        level = self._child_levels[child]
        sockets = level.outlets if is_source else level.inlets
        # An edge inside the child has no socket on its frame, and is dropped by the caller.
        return self._children[child], sockets.index(key) if key in sockets else 0

    def _is_inside(self, box: str) -> bool:
        return self._groups[box][: len(self.group)] == self.group

    def _crosses(self, edge: Edge) -> bool:
        return self._is_inside(edge.source) != self._is_inside(edge.target)


def _unique(edges: Iterable[Edge]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((edge.source, edge.source_place) for edge in edges))
