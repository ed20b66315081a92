"""The places of vertices across: short lines, most of them straight, in the order of the layers.

The sum of the deviations of lines is made small, weighted by what the lines join: first by squares,
which spreads the vertices, then by absolute values, which makes lines exactly straight. Last,
vertices that are joined by straight lines move as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from servers.drawing.level import Web

#: Distances between neighbours in a layer: of cells, of a cell and a knot, of knots.
GAPS = (30.0, 18.0, 11.0)
#: The same where that makes a line straight.
_LEAST_GAPS = (22.0, 14.0, 9.0)
#: Weights of lines: between cells, between a cell and a knot, between knots.
_PULLS = (1.0, 2.0, 8.0)
_SPREADING_SWEEPS = 6
_STRAIGHTENING_SWEEPS = 6
_BLOCK_ROUNDS = 8
#: The price of a line with bends, as a length.
_BEND = 16.0
_FAR = 1e9

#: Places that an item would like, with weights.
Wishes = list[tuple[float, float]]
#: A line between neighbouring layers: vertices, what to add to the place of the first to get the
#: place of the second, and a weight.
_Line = tuple[int, int, float, float]


def place(web: Web) -> list[float]:
    """Return the beginning of each vertex, from 0."""
    lines = _lines(web)
    before: list[list[tuple[int, float, float]]] = [[] for _ in web.breadths]
    behind: list[list[tuple[int, float, float]]] = [[] for _ in web.breadths]
    for a, b, shift, weight in lines:
        behind[a].append((b, -shift, weight))
        before[b].append((a, shift, weight))
    rows = [_Row(web, layer) for layer in web.layers]
    at = [0.0] * len(web.breadths)
    for row in rows:
        row.stack(at)
    count = len(rows)
    for sweep in range(_SPREADING_SWEEPS + _STRAIGHTENING_SWEEPS):
        spreads = sweep < _SPREADING_SWEEPS
        for number in range(count) if sweep % 2 == 0 else range(count - 1, -1, -1):
            both = sweep >= 2
            row = rows[number]
            wishes: list[Wishes] = []
            for vertex in row.vertices:
                mine: Wishes = []
                if both or sweep % 2 == 0:
                    mine += [(at[each] + shift, pull) for each, shift, pull in before[vertex]]
                if both or sweep % 2 == 1:
                    mine += [(at[each] + shift, pull) for each, shift, pull in behind[vertex]]
                wishes.append(mine or [(at[vertex], 0.05)])
            row.settle(wishes, at, is_exact=not spreads)
    _straighten(rows, lines, at)
    _straighten([_Row(web, layer, _LEAST_GAPS) for layer in web.layers], lines, at)
    # Whole pixels. The distances are, too, so straight lines stay straight and gaps wide enough.
    whole = [math.floor(each + 0.5 + 1e-6) for each in at]
    least = min(whole, default=0)
    return [float(each - least) for each in whole]


class _Row:
    """A layer: its vertices, and the smallest distances between their beginnings."""

    def __init__(
        self, web: Web, vertices: Sequence[int], gaps: tuple[float, float, float] = GAPS
    ) -> None:
        self.vertices = list(vertices)
        self.distances = [
            web.breadths[a] + gaps[web.is_knot(a) + web.is_knot(b)]
            for a, b in zip(self.vertices, self.vertices[1:], strict=False)
        ]

    def stack(self, at: list[float]) -> None:
        """Place the vertices without gaps, around 0."""
        shift = -sum(self.distances) / 2
        for vertex, distance in zip(self.vertices, [*self.distances, 0.0], strict=True):
            at[vertex] = shift
            shift += distance

    def settle(self, wishes: list[Wishes], at: list[float], *, is_exact: bool) -> None:
        """Move the vertices towards their wishes."""
        found = keep_apart(wishes, self.distances, is_exact=is_exact)
        for vertex, each in zip(self.vertices, found, strict=True):
            at[vertex] = each


def keep_apart(
    wishes: Sequence[Wishes], distances: Sequence[float], *, is_exact: bool
) -> list[float]:
    """Return places in order and at least ``distances`` apart, nearest to the wishes.

    By pooling adjacent violators: neighbours that would overlap move as one block. Nearest is least
    absolute deviations if ``is_exact``, else least squares.
    """
    shift = 0.0
    shifts = []
    blocks: list[tuple[float, Wishes, int]] = []  # place without shifts, its wishes, how many items
    for number, mine in enumerate(wishes):
        shifts.append(shift)
        held = [(wish - shift, weight) for wish, weight in mine]
        at, many = _nearest(held, is_exact=is_exact), 1
        while blocks and blocks[-1][0] > at:
            _, others, count = blocks.pop()
            held = others + held
            at, many = _nearest(held, is_exact=is_exact), many + count
        blocks.append((at, held, many))
        if number < len(distances):
            shift += distances[number]
    flat = [at for at, _, many in blocks for _ in range(many)]
    return [at + shift for at, shift in zip(flat, shifts, strict=True)]


def _nearest(wishes: Wishes, *, is_exact: bool) -> float:
    if len(wishes) == 1:
        return wishes[0][0]
    if is_exact:
        return _median(wishes)
    weight = sum(each for _, each in wishes)
    return sum(wish * each for wish, each in wishes) / weight


def _median(wishes: Wishes) -> float:
    ordered = sorted(wishes)
    half = sum(weight for _, weight in ordered) / 2
    for wish, weight in ordered:
        half -= weight
        if half <= 1e-9:
            return wish
    return ordered[-1][0]


def _lines(web: Web) -> list[_Line]:
    found = []
    for pieces in web.gaps:
        for piece in pieces.values():
            if not piece.before or not piece.behind:
                continue
            for a, hold_a in piece.before[:1]:
                for b, hold_b in piece.behind:
                    pull = _PULLS[web.is_knot(a) + web.is_knot(b)]
                    pull *= web.level.nets[piece.net].weight
                    found.append((a, b, hold_a - hold_b, pull))
    for pieces in web.gaps:
        for piece in pieces.values():
            # A knot of a line that runs back stays near the cell where the line turns.
            for ends in (piece.before, piece.behind):
                if len(ends) > 1 and not (piece.before and piece.behind):
                    for b, hold_b in ends[1:]:
                        if b != ends[0][0]:
                            found.append((ends[0][0], b, ends[0][1] - hold_b, 0.3))
    return found


# Blocks -------------------------------------------------------------------------------------------


def _straighten(rows: list[_Row], lines: list[_Line], at: list[float]) -> None:
    """Move vertices that straight lines join, as one, for shorter lines with fewer bends."""
    neighbors: dict[int, list[tuple[int, float, bool]]] = {}
    for row in rows:
        for a, b, distance in zip(row.vertices, row.vertices[1:], row.distances, strict=False):
            neighbors.setdefault(a, []).append((b, distance, True))
            neighbors.setdefault(b, []).append((a, distance, False))
    for _ in range(_BLOCK_ROUNDS):
        block = _blocks(len(at), lines, at)
        members: dict[int, list[int]] = {}
        for vertex, root in enumerate(block):
            members.setdefault(root, []).append(vertex)
        ends: dict[int, list[_Line]] = {root: [] for root in members}
        for line in lines:
            if block[line[0]] != block[line[1]]:
                ends[block[line[0]]].append(line)
                ends[block[line[1]]].append(line)
        is_moved = False
        for root in sorted(members, key=lambda each: (len(members[each]), each)):
            wishes: Wishes = []
            for a, b, shift, weight in ends[root]:
                off = at[a] + shift - at[b]
                wishes.append((-off if block[a] == root else off, weight))
            if not wishes:
                continue
            low, high = _room(members[root], root, block, neighbors, at)
            step = min(
                (0.0, *(min(max(wish, low), high) for wish, _ in wishes)),
                key=lambda each: (round(_cost(wishes, each), 3), abs(each)),
            )
            if abs(step) >= 0.01:
                is_moved = True
                for vertex in members[root]:
                    at[vertex] += step
        if not is_moved:
            return


def _room(
    members: list[int],
    root: int,
    block: list[int],
    neighbors: dict[int, list[tuple[int, float, bool]]],
    at: list[float],
) -> tuple[float, float]:
    """Return how far a block can move: at most 0, at least 0."""
    low, high = -_FAR, _FAR
    for vertex in members:
        for other, distance, is_after in neighbors.get(vertex, ()):
            if block[other] == root:
                continue
            if is_after:
                high = min(high, max(at[other] - at[vertex] - distance, 0.0))
            else:
                low = max(low, min(at[other] + distance - at[vertex], 0.0))
    return low, high


def _cost(wishes: Wishes, at: float) -> float:
    """Return the length of lines across, and a price for each that is not straight."""
    return sum(
        abs(wish - at) * weight + (_BEND if abs(wish - at) >= 0.01 else 0.0)
        for wish, weight in wishes
    )


def _blocks(count: int, lines: list[_Line], at: list[float]) -> list[int]:
    """Return for each vertex the first vertex of those that straight lines join with it."""
    root = list(range(count))

    def find(vertex: int) -> int:
        while root[vertex] != vertex:
            root[vertex] = root[root[vertex]]
            vertex = root[vertex]
        return vertex

    for a, b, shift, _ in lines:
        if abs(at[a] + shift - at[b]) < 0.01:
            first, second = sorted((find(a), find(b)))
            root[second] = first
    return [find(vertex) for vertex in range(count)]
