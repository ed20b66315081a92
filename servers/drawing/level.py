"""One level of a drawing: cells to place and nets between them.

The direction of the streams is "along", the other one "across", so that one layout serves drawings
to the right and downwards. A subgraph is one cell of the level around it, and a level of its own
inside, so its frame holds its nodes and nothing else. Nets that cross the frame meet at a port on
it.

Lines have vertices and pieces. A line over several layers has a *knot* in each layer between, which
is ordered and placed like a cell. All lines of a net share their knots. A line that runs back
leaves its source at the end, has a knot beside the source, one beside the target, and one in each
layer between. The loop of a single cell goes around it in room of its own, and has neither knots
nor pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
class NetEnd:
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

    source: NetEnd
    targets: tuple[NetEnd, ...]
    has_drop: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Level:
    """The cells and nets of one level."""

    cells: tuple[Cell, ...]
    nets: tuple[Net, ...]


@dataclass(slots=True)
class CellPlaces:
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


#: The distances between the line of a loop and its cell, across and along, and between such lines.
LOOP_RISE = 18.0
LOOP_SIDE = 12.0
LOOP_GAP = 12.0
#: Room over the line of a loop, for how often it turns.
_LOOP_ROOM = 10.0

#: A vertex, and the distance of the line from its beginning.
Hold = tuple[int, float]


@dataclass(slots=True)
class LinePiece:
    """The part of a net in one gap: ends at the layer before and at the layer after it.

    ``has_drop``: it has an end at the end of the level across, too.
    """

    net: int
    has_drop: bool = False
    before: list[Hold] = field(default_factory=list)
    behind: list[Hold] = field(default_factory=list)


@dataclass(slots=True)
class Web:
    """Vertices 0 to the number of cells are the cells, all further ones knots.

    Attributes:
        breadths: of each vertex, with the room for loops.
        heads: the room for loops at the beginning of each vertex.
        layers: vertices in order.
        gaps: pieces by the gap they are in; gap g is before layer g, the last one after all.
        ahead, behind: knots of each net by layer, of lines that run forward and back.
        loops: the rank of loops by net and target, from the inside.
        loop_counts: the number of loops of cells that have any.
    """

    level: Level
    layer_of: list[int]
    breadths: list[float]
    heads: list[float]
    layers: list[list[int]]
    gaps: list[dict[int, LinePiece]]
    ahead: list[dict[int, int]]
    behind: list[dict[int, int]]
    loops: dict[tuple[int, int], int]
    loop_counts: dict[int, int]

    def is_knot(self, vertex: int) -> bool:
        return vertex >= len(self.level.cells) or self.level.cells[vertex].is_end

    def source(self, net: int) -> Hold:
        end = self.level.nets[net].source
        return end.cell, self.heads[end.cell] + self.level.cells[end.cell].outputs[end.port]

    def target(self, net: int, number: int) -> Hold:
        end = self.level.nets[net].targets[number]
        return end.cell, self.heads[end.cell] + self.level.cells[end.cell].inputs[end.port]

    def loop_across(self, net: int, number: int) -> float:
        """Return where the loop of a single cell runs back, from the beginning of the vertex."""
        cell = self.level.nets[net].source.cell
        return self.heads[cell] - LOOP_RISE - LOOP_GAP * self.loops[net, number]


def make_web(level: Level, layers: Sequence[int], back: set[tuple[int, int]]) -> Web:
    """Return the web of a level whose cells have layers; ``back`` has the targets of back lines."""
    count = max(layers, default=-1) + 1
    loops, ranks = _loops(level, back)
    heads = [
        LOOP_RISE + LOOP_GAP * (ranks[cell] - 1) + _LOOP_ROOM if cell in ranks else 0.0
        for cell in range(len(level.cells))
    ]
    web = Web(
        level,
        list(layers),
        [cell.breadth + head for cell, head in zip(level.cells, heads, strict=True)],
        heads,
        [[] for _ in range(count)],
        [{} for _ in range(count + 1)],
        [{} for _ in level.nets],
        [{} for _ in level.nets],
        loops,
        ranks,
    )
    for cell, layer in enumerate(layers):
        web.layers[layer].append(cell)
    for net, each in enumerate(level.nets):
        _add_ahead(web, net, back)
        _add_back(web, net, back)
        if each.has_drop:
            piece = _piece(web, layers[each.source.cell] + 1, net)
            piece.has_drop = True
            piece.before = piece.before or [web.source(net)]
    return web


def _loops(
    level: Level, back: set[tuple[int, int]]
) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """Return the rank of each loop of a single cell, from the inside, and their number by cell."""
    found = {}
    counts: dict[int, int] = {}
    ports = {
        (net, number): (level.nets[net].source.port, level.nets[net].targets[number].port)
        for net, number in back
    }
    for net, number in sorted(back, key=lambda key: (ports[key], key)):
        cell = level.nets[net].source.cell
        if level.nets[net].targets[number].cell == cell:
            found[net, number] = counts.get(cell, 0)
            counts[cell] = found[net, number] + 1
    return found, counts


def _piece(web: Web, gap: int, net: int) -> LinePiece:
    return web.gaps[gap].setdefault(net, LinePiece(net))


def _knot(web: Web, layer: int) -> int:
    web.breadths.append(0.0)
    web.heads.append(0.0)
    web.layer_of.append(layer)
    web.layers[layer].append(len(web.breadths) - 1)
    return len(web.breadths) - 1


def _add_ahead(web: Web, net: int, back: set[tuple[int, int]]) -> None:
    targets = {
        number: web.layer_of[end.cell]
        for number, end in enumerate(web.level.nets[net].targets)
        if (net, number) not in back
    }
    if not targets:
        return
    at = web.source(net)
    first = web.layer_of[web.level.nets[net].source.cell]
    for layer in range(first + 1, max(targets.values()) + 1):
        piece = _piece(web, layer, net)
        piece.before.append(at)
        piece.behind += [web.target(net, each) for each, to in targets.items() if to == layer]
        if layer < max(targets.values()):
            at = (_knot(web, layer), 0.0)
            web.ahead[net][layer] = at[0]
            piece.behind.append(at)


def _add_back(web: Web, net: int, back: set[tuple[int, int]]) -> None:
    source = web.level.nets[net].source.cell
    first = web.layer_of[source]
    targets: dict[int, int] = {}
    for number, end in enumerate(web.level.nets[net].targets):
        if (net, number) not in back:
            continue
        if end.cell != source:
            targets[number] = web.layer_of[end.cell]
    if not targets:
        return
    at = (_knot(web, first), 0.0)
    web.behind[net][first] = at[0]
    out = _piece(web, first + 1, net)
    out.before += [at] if web.source(net) in out.before else [web.source(net), at]
    for layer in range(first, min(targets.values()) - 1, -1):
        piece = _piece(web, layer, net)
        piece.behind.append(at)
        piece.behind += [web.target(net, each) for each, to in targets.items() if to == layer]
        if layer > min(targets.values()):
            at = (_knot(web, layer - 1), 0.0)
            web.behind[net][layer - 1] = at[0]
            piece.before.append(at)


#: The lines of each stream, or of whatever shares its lines: corners of horizontal and vertical
#: pieces.
Lines = Mapping[object, Sequence[Sequence[Point]]]


def length(lines: Lines) -> float:
    """Return the sum of the lengths of all lines."""
    return sum(
        abs(a[0] - b[0]) + abs(a[1] - b[1])
        for each in lines.values()
        for line in each
        for a, b in pairwise(line)
    )


def crossings(lines: Lines) -> int:
    """Return the number of points where lines of different streams cross."""
    level = {key: _pieces(each, 1) for key, each in lines.items()}
    upright = {key: _pieces(each, 0) for key, each in lines.items()}
    total = 0
    for key, across in level.items():
        for other, down in upright.items():
            if key != other:
                total += len(
                    {
                        (x, y)
                        for y, left, right in across
                        for x, top, bottom in down
                        if left + 0.5 < x < right - 0.5 and top + 0.5 < y < bottom - 0.5
                    }
                )
    return total


def _pieces(lines: Iterable[Sequence[Point]], axis: int) -> set[tuple[float, float, float]]:
    """Return the pieces along the other axis: where they are on this one, and their two ends."""
    found = set()
    for line in lines:
        for a, b in pairwise(line):
            if abs(a[axis] - b[axis]) < 0.1 and abs(a[1 - axis] - b[1 - axis]) >= 0.1:
                low, high = sorted((a[1 - axis], b[1 - axis]))
                found.add((round(a[axis], 1), low, high))
    return found
