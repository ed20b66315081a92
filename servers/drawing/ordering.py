"""The order of the vertices in their layers, for few crossings.

Barycenter sweeps (Sugiyama, Tagawa, Toda 1981) and exchanges of neighbours, from several
beginnings: the more, the smaller the graph is.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import replace

from servers.drawing.level import Cell, Level, Web

#: The places of neighbours of a port, by cell, side (0: inputs) and port.
_Neighbors = dict[tuple[int, int, int], list[float]]


def order_ports(web: Web) -> Level:
    """Return the level of a web with the ports of its cells in the order of their neighbours."""
    neighbors = _neighbors(web)
    cells = []
    for number, cell in enumerate(web.level.cells):
        sides = [
            _ordered(cell, side, number, ports, neighbors)
            for side, ports in enumerate((cell.inputs, cell.outputs))
        ]
        cells.append(replace(cell, inputs=sides[0], outputs=sides[1]))
    return Level(tuple(cells), web.level.nets)


def _neighbors(web: Web) -> _Neighbors:
    place: dict[int, float] = {
        vertex: index for row in web.layers for index, vertex in enumerate(row)
    }
    found: _Neighbors = {}
    for pieces in web.gaps:
        for net, piece in pieces.items():
            ends = web.level.nets[net]
            holds = [*piece.before, *piece.behind]
            at = [
                place[vertex] + offset / max(web.breadths[vertex], 1.0) for vertex, offset in holds
            ]
            source = web.source(net)
            if source in piece.before:
                others = [each for each, hold in zip(at, holds, strict=True) if hold != source]
                others += [float(len(web.breadths))] * piece.has_drop
                found.setdefault((ends.source.cell, 1, ends.source.port), []).extend(others)
            for number, end in enumerate(ends.targets):
                target = web.target(net, number)
                if target in piece.behind:
                    others = at[: len(piece.before)] or [
                        each for each, hold in zip(at, holds, strict=True) if hold != target
                    ]
                    found.setdefault((end.cell, 0, end.port), []).extend(others)
    return found


def _ordered(
    cell: Cell, side: int, number: int, ports: tuple[float, ...], neighbors: _Neighbors
) -> tuple[float, ...]:
    """Return the places of ports: the same places, given to the ports in a new order."""
    sections = cell.sections[side]
    if len(ports) < 2 or not sections:
        return ports
    wanted: dict[tuple[int, str], list[float]] = {}
    for port, section in enumerate(sections):
        wanted.setdefault(section, []).extend(neighbors.get((number, side, port), ()))
    now = sorted(range(len(ports)), key=ports.__getitem__)
    rank = {port: index for index, port in enumerate(now)}
    order = sorted(
        range(len(ports)),
        key=lambda port: (
            sections[port][0],
            _mean(wanted[sections[port]]),
            min(rank[other] for other in now if sections[other] == sections[port]),
            port,
        ),
    )
    places = sorted(ports)
    found = [0.0] * len(ports)
    for place, port in zip(places, order, strict=True):
        found[port] = place
    return tuple(found)


def _mean(values: Sequence[float]) -> float:
    # A port without a line stands last.
    return sum(values) / len(values) if values else float("inf")


#: Beginnings: so many times vertices, and never more.
_ATTEMPTS_TIMES_SIZE = 500
_MOST_ATTEMPTS = 16
_ONE_ATTEMPT_FROM = 4000
#: Sweeps from each beginning end earlier when they find nothing better.
_SWEEPS = 10
_PATIENCE = 4
_EXCHANGES = 4
_FAR = 1e9

#: An end of a line in a gap: a vertex and the share of its breadth, from its beginning.
_Ends = list[tuple[int, float]]


class _Gap:
    """The lines of a gap: across it, and from its one side back to the same side."""

    def __init__(self) -> None:
        self.across: list[tuple[int, float, int, float]] = []
        self.before: list[tuple[int, float, int, float]] = []
        self.behind: list[tuple[int, float, int, float]] = []
        #: Ends of lines that run to the end of the level.
        self.drops: list[tuple[int, float]] = []


def attempts(web: Web) -> int:
    """Return how many beginnings are worth their time."""
    if len(web.breadths) > _ONE_ATTEMPT_FROM:
        return 1
    return max(2, min(_MOST_ATTEMPTS, _ATTEMPTS_TIMES_SIZE // max(len(web.breadths), 1)))


def order(web: Web, attempt: int) -> None:
    """Order the layers of a web in place, from one of several beginnings.

    Half of them take no notice of the order of ports that may change places.
    """
    if attempt > 3:
        chance = random.Random(attempt)
        for layer in web.layers:
            chance.shuffle(layer)
    _improve(web, _gaps(web, with_ports=attempt % 4 < 2), ahead_first=attempt % 2 == 1)


def improve(web: Web, layers: list[list[int]]) -> int:
    """Begin with these layers, and return the number of crossings."""
    gaps = _gaps(web)
    web.layers[:] = [list(layer) for layer in layers]
    _improve(web, gaps, ahead_first=True)
    return _crossings(web, gaps)


def _improve(web: Web, gaps: list[_Gap], *, ahead_first: bool) -> None:
    fewest, best = _swept(web, gaps, ahead_first=ahead_first)
    web.layers[:] = best
    if fewest:
        _exchange(web, _lines(gaps))
        if _crossings(web, gaps) > fewest:
            web.layers[:] = best


def _swept(web: Web, gaps: list[_Gap], *, ahead_first: bool) -> tuple[int, list[list[int]]]:
    """Sort layers by their neighbours, ahead and back, and return the best order seen."""
    fewest, best = _crossings(web, gaps), [list(layer) for layer in web.layers]
    without = 0
    count = len(web.layers)
    for sweep in range(_SWEEPS):
        if not fewest or without >= _PATIENCE:
            break
        ahead = (sweep % 2 == 0) is ahead_first
        for layer in range(1, count) if ahead else range(count - 2, -1, -1):
            _sort_layer(web, gaps, layer, ahead=ahead)
        crossings = _crossings(web, gaps)
        without += 1
        if crossings < fewest:
            fewest, best, without = crossings, [list(layer) for layer in web.layers], 0
    return fewest, best


def _gaps(web: Web, *, with_ports: bool = True) -> list[_Gap]:
    shares = web.breadths
    cells = web.level.cells

    def end(hold: tuple[int, float]) -> tuple[int, float]:
        if not with_ports and hold[0] < len(cells) and any(cells[hold[0]].sections):
            return hold[0], 0.5
        return hold[0], hold[1] / max(shares[hold[0]], 1.0)

    gaps = []
    for pieces in web.gaps:
        gap = _Gap()
        for piece in pieces.values():
            before, behind = (
                [end(each) for each in piece.before],
                [end(each) for each in piece.behind],
            )
            if piece.has_drop:
                gap.drops.append(before[0])
            if before:
                gap.across += [(*before[0], *each) for each in behind]
                gap.before += [
                    (*before[0], *each) for each in before[1:] if each[0] != before[0][0]
                ]
            else:
                gap.behind += [
                    (*behind[0], *each) for each in behind[1:] if each[0] != behind[0][0]
                ]
        gaps.append(gap)
    return gaps


def _sort_layer(web: Web, gaps: list[_Gap], layer: int, *, ahead: bool) -> None:
    row = web.layers[layer]
    fixed = web.layers[layer - 1 if ahead else layer + 1]
    place = {vertex: float(index) for index, vertex in enumerate(fixed)}
    total: dict[int, float] = {}
    count: dict[int, int] = {}
    for a, share_a, b, share_b in gaps[layer if ahead else layer + 1].across:
        near, far, share = (b, a, share_a) if ahead else (a, b, share_b)
        total[near] = total.get(near, 0.0) + place[far] + share
        count[near] = count.get(near, 0) + 1
    if not ahead:
        for vertex, _ in gaps[layer + 1].drops:
            total[vertex] = total.get(vertex, 0.0) + len(fixed)
            count[vertex] = count.get(vertex, 0) + 1
    scale = len(fixed) / max(len(row), 1)
    keys = {
        vertex: total[vertex] / count[vertex] if vertex in count else (index + 0.5) * scale
        for index, vertex in enumerate(row)
    }
    # A knot beside its own cell follows it.
    for gap in (gaps[layer].behind, gaps[layer + 1].before):
        for a, _, b, _ in gap:
            if b not in count and a in keys and b in keys:
                keys[b] = keys[a] + 0.6
            elif a not in count and a in keys and b in keys:
                keys[a] = keys[b] + 0.6
    row.sort(key=keys.__getitem__)


def _crossings(web: Web, gaps: list[_Gap]) -> int:
    place = {vertex: index for row in web.layers for index, vertex in enumerate(row)}
    return sum(_crossings_in(gap, place) for gap in gaps)


def _crossings_in(gap: _Gap, place: dict[int, int]) -> int:
    ends = sorted(
        [(place[a] + share_a, place[b] + share_b) for a, share_a, b, share_b in gap.across]
        + [(place[a] + share, _FAR) for a, share in gap.drops]
    )
    total = 0
    seen: list[float] = []
    for _, end in ends:
        total += len(seen) - bisect_right(seen, end)
        insort(seen, end)
    for lines, side in ((gap.before, 0), (gap.behind, 1)):
        if not lines:
            continue
        others = sorted(each[side] for each in ends)
        spans = [
            sorted((place[a] + share_a, place[b] + share_b)) for a, share_a, b, share_b in lines
        ]
        for low, high in spans:
            total += bisect_left(others, high) - bisect_right(others, low)
        for index, (low, high) in enumerate(spans):
            for other_low, other_high in spans[index + 1 :]:
                total += (low < other_low < high) != (low < other_high < high)
    return total


def _lines(gaps: list[_Gap]) -> dict[int, tuple[_Ends, _Ends]]:
    """Return the ends of the lines of each vertex, in the gaps before and after it."""
    lines: dict[int, tuple[_Ends, _Ends]] = {}
    for gap in gaps:
        for a, share_a, b, share_b in gap.across:
            lines.setdefault(a, ([], []))[1].append((b, share_b))
            lines.setdefault(b, ([], []))[0].append((a, share_a))
        for a, share_a in gap.drops:
            lines.setdefault(a, ([], []))[1].append((-1, share_a))
    return lines


def _exchange(web: Web, lines: dict[int, tuple[_Ends, _Ends]]) -> None:
    """Exchange neighbours in a layer as long as that removes crossings."""
    place: dict[int, float] = {
        vertex: index for row in web.layers for index, vertex in enumerate(row)
    }
    place[-1] = _FAR
    for _ in range(_EXCHANGES):
        is_better = False
        for row in web.layers:
            for index in range(len(row) - 1):
                a, b = row[index], row[index + 1]
                if a not in lines or b not in lines:
                    continue
                gain = 0
                for side in (0, 1):
                    ends_a = [place[each] + share for each, share in lines[a][side]]
                    ends_b = [place[each] + share for each, share in lines[b][side]]
                    for x in ends_a:
                        for y in ends_b:
                            gain += (x > y) - (x < y)
                if gain > 0:
                    row[index], row[index + 1] = b, a
                    place[a], place[b] = index + 1, index
                    is_better = True
        if not is_better:
            break
