"""The order of cells in their layers, and their x, for few crossings and straight lines.

A link over several layers gets a *knot* in each layer between, which is placed like a cell. The
order comes from barycenter sweeps (Sugiyama, Tagawa, Toda 1981). For x, each layer in turn moves
towards its neighbours, as far as the order and the widths allow.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from servers.drawing.level import Cell, Link

ORDER_SWEEPS = 12
PLACE_SWEEPS = 16
KNOT_WIDTH = 10.0
#: Weights of straight segments: between cells, between a cell and a knot, between knots.
_PULLS = (1.0, 2.0, 8.0)


@dataclass(frozen=True)
class Vertex:
    """A cell, or a knot of a link (``cell`` is -1)."""

    cell: int
    width: float


@dataclass(frozen=True)
class Segment:
    """The part of a link between two neighbouring layers; offsets are x from the vertices' left."""

    upper: int
    upper_offset: float
    lower: int
    lower_offset: float
    pull: float


@dataclass
class Columns:
    """The vertices of each layer in order, and the left edge of each vertex.

    ``knots`` has the knots of each downward link, from top to bottom.
    """

    vertices: list[Vertex]
    layers: list[list[int]]
    segments: list[list[Segment]]
    knots: list[list[int]]
    x: list[float]


def arrange(
    cells: Sequence[Cell], layer_of: Sequence[int], down: Sequence[Link], gap: float
) -> Columns:
    """Order and place the cells; ``gap`` is the smallest distance between neighbours."""
    columns = _with_knots(cells, layer_of, down)
    _order(columns)
    _place(columns, gap)
    return columns


def _with_knots(cells: Sequence[Cell], layer_of: Sequence[int], down: Sequence[Link]) -> Columns:
    vertices = [Vertex(place, cell.width) for place, cell in enumerate(cells)]
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for place, layer in enumerate(layer_of):
        layers[layer].append(place)
    segments: list[list[Segment]] = [[] for _ in layers]  # by the layer of the upper end
    knots = []
    for link in down:
        chain: list[int] = []
        upper, offset = link.source, cells[link.source].bottoms[link.source_place]
        target_offset = cells[link.target].tops[link.target_place]
        for layer in range(layer_of[link.source] + 1, layer_of[link.target]):
            knot = len(vertices)
            vertices.append(Vertex(-1, KNOT_WIDTH))
            layers[layer].append(knot)
            pull = _PULLS[2 if chain else 1]
            segments[layer - 1].append(Segment(upper, offset, knot, KNOT_WIDTH / 2, pull))
            chain.append(knot)
            upper, offset = knot, KNOT_WIDTH / 2
        pull = _PULLS[1 if chain else 0]
        last = layer_of[link.target] - 1
        segments[last].append(Segment(upper, offset, link.target, target_offset, pull))
        knots.append(chain)
    return Columns(vertices, layers, segments, knots, [0.0] * len(vertices))


# Order --------------------------------------------------------------------------------------------


def _order(columns: Columns) -> None:
    """Sort each layer by the places of its neighbours, down and up, and keep the best order."""
    layers = columns.layers
    best = [list(layer) for layer in layers]
    fewest = _crossings(columns)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        runs_down = sweep % 2 == 0
        rows = range(1, len(layers)) if runs_down else range(len(layers) - 2, -1, -1)
        for layer in rows:
            _sort_layer(columns, layer, from_above=runs_down)
        crossings = _crossings(columns)
        if crossings < fewest:
            fewest, best = crossings, [list(layer) for layer in layers]
    columns.layers[:] = best


def _sort_layer(columns: Columns, layer: int, *, from_above: bool) -> None:
    fixed = columns.layers[layer - 1 if from_above else layer + 1]
    place = {vertex: index for index, vertex in enumerate(fixed)}
    wanted: dict[int, list[float]] = {}
    for segment in columns.segments[layer - 1 if from_above else layer]:
        near, far, offset = segment.lower, segment.upper, segment.upper_offset
        if not from_above:
            near, far, offset = segment.upper, segment.lower, segment.lower_offset
        fraction = offset / max(columns.vertices[far].width, 1.0)
        wanted.setdefault(near, []).append(place[far] + fraction)
    current = columns.layers[layer]
    # A vertex without neighbours keeps its place in the row.
    scale = len(fixed) / max(len(current), 1)
    keys = {
        vertex: sum(wanted[vertex]) / len(wanted[vertex]) if vertex in wanted else index * scale
        for index, vertex in enumerate(current)
    }
    current.sort(key=lambda vertex: keys[vertex])


def _crossings(columns: Columns) -> int:
    total = 0
    for layer, segments in enumerate(columns.segments[:-1]):
        upper = {vertex: index for index, vertex in enumerate(columns.layers[layer])}
        lower = {vertex: index for index, vertex in enumerate(columns.layers[layer + 1])}
        ends = sorted(
            (
                (upper[segment.upper], segment.upper_offset),
                (lower[segment.lower], segment.lower_offset),
            )
            for segment in segments
        )
        seen: list[tuple[int, float]] = []
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return total


# Place --------------------------------------------------------------------------------------------


def _place(columns: Columns, gap: float) -> None:
    for row in columns.layers:
        at = 0.0
        for vertex in row:
            columns.x[vertex] = at
            at += columns.vertices[vertex].width + gap
    count = len(columns.layers)
    for sweep in range(PLACE_SWEEPS):
        is_last = sweep >= PLACE_SWEEPS - 4
        order = range(count) if sweep % 2 == 0 else range(count - 1, -1, -1)
        for layer in order:
            above = is_last or sweep % 2 == 0
            below = is_last or sweep % 2 == 1
            _place_layer(columns, layer, gap, above=above, below=below)
    left = min(columns.x, default=0.0)
    columns.x[:] = [x - left for x in columns.x]


def _place_layer(columns: Columns, layer: int, gap: float, *, above: bool, below: bool) -> None:
    pulls: dict[int, list[tuple[float, float]]] = {}
    x = columns.x
    if above and layer > 0:
        for segment in columns.segments[layer - 1]:
            wanted = x[segment.upper] + segment.upper_offset - segment.lower_offset
            pulls.setdefault(segment.lower, []).append((wanted, segment.pull))
    if below:
        for segment in columns.segments[layer]:
            wanted = x[segment.lower] + segment.lower_offset - segment.upper_offset
            pulls.setdefault(segment.upper, []).append((wanted, segment.pull))
    row = columns.layers[layer]
    wishes = []
    for vertex in row:
        mine = pulls.get(vertex, [(x[vertex], 0.1)])
        weight = sum(pull for _, pull in mine)
        wishes.append((sum(wanted * pull for wanted, pull in mine) / weight, weight))
    widths = [columns.vertices[vertex].width + gap for vertex in row]
    for vertex, place in zip(row, keep_apart(wishes, widths), strict=True):
        x[vertex] = place


def keep_apart(wishes: Sequence[tuple[float, float]], widths: Sequence[float]) -> list[float]:
    """Return the places nearest to the wishes (place, weight) without overlaps, in order.

    Least squares by pooling adjacent violators: neighbours that overlap move as one block.
    """
    shift = 0.0
    shifts = []
    blocks: list[tuple[float, float, int]] = []  # place without shift, weight, how many
    for (wish, weight), width in zip(wishes, widths, strict=True):
        shifts.append(shift)
        place, many = wish - shift, 1
        while blocks and blocks[-1][0] > place:
            other, other_weight, count = blocks.pop()
            place = (place * weight + other * other_weight) / (weight + other_weight)
            weight += other_weight
            many += count
        blocks.append((place, weight, many))
        shift += width
    flat = [place for place, _, many in blocks for _ in range(many)]
    return [place + shift for place, shift in zip(flat, shifts, strict=True)]
