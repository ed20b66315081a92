"""One level laid out: layers along, vertices across, lanes between the layers."""

from __future__ import annotations

from collections.abc import Sequence

from servers.drawing.lanes import Trunk, assign_lanes
from servers.drawing.layers import assign_layers, forward_edges
from servers.drawing.level import Level, Placement, Point
from servers.drawing.measures import crossings, length
from servers.drawing.ordering import attempts, improve, order
from servers.drawing.places import place
from servers.drawing.port_order import order_ports
from servers.drawing.web import LOOP_GAP, LOOP_SIDE, Hold, Web, make_web

LANE_GAP = 11.0
#: The distance between a cell and the next lane.
_CELL_LANE = 20.0
#: The distance between layers without a lane between them.
_LAYER_GAP = 46.0
#: The distance between a frame and the first layer in it.
_END_GAP = 16.0

#: Rounds in which the orders of ports and of nodes are fitted to each other.
_PORT_ROUNDS = 2
#: After this many orders without fewer crossings, no further ones are tried.
_PATIENCE = 5
#: Orders with the fewest crossings that are compared by what is drawn, in graphs of up to so many
#: cells and knots.
_COMPARED = 8
_COMPARED_UP_TO = 60
#: The price of a crossing, as a length.
_CROSSING = 150.0


def lay_out_level(level: Level, layers: list[int] | None = None) -> Placement:
    """Place the cells of a level and the lines of its nets.

    Args:
        level: cells and nets; places begin at 0.
        layers: the layer of each cell, if they are known.
    """
    edges, _ = forward_edges(level)
    if layers is None:
        layers = assign_layers(level, edges)
    back = back_targets(level, layers)
    found: list[tuple[int, Web]] = []
    without = 0
    for attempt in range(attempts(make_web(level, layers, back))):
        cuts, web = _ordered(level, layers, back, attempt)
        without = 0 if all(cuts < each for each, _ in found) else without + 1
        found.append((cuts, web))
        if not cuts or without >= _PATIENCE:
            break
    found.sort(key=lambda each: each[0])
    compared = _COMPARED if found[0][0] and len(found[0][1].breadths) <= _COMPARED_UP_TO else 1
    placed = [_Sheet(web, place(web)).placement() for _, web in found[:compared]]
    return min(placed, key=_faults) if compared > 1 else placed[0]


def _faults(placed: Placement) -> float:
    return _CROSSING * crossings(placed.lines()) + length(placed.lines())


def _ordered(
    level: Level, layers: list[int], back: set[tuple[int, int]], attempt: int
) -> tuple[int, Web]:
    """Return a web with its cells and ports in order, and the number of its crossings."""
    web = make_web(level, layers, back)
    order(web, attempt)
    cuts = -1
    for _ in range(_PORT_ROUNDS):
        ordered, rows = order_ports(web), web.layers
        is_same = ordered == web.level
        if not is_same:
            # The same knots in the same order, with ports at other places.
            web = make_web(ordered, layers, back)
        cuts = improve(web, rows)
        if is_same or not cuts:
            break
    return cuts, web


def back_targets(level: Level, layers: list[int]) -> set[tuple[int, int]]:
    """Return the targets that do not stand behind the source of their line."""
    return {
        (place, number)
        for place, net in enumerate(level.nets)
        for number, end in enumerate(net.targets)
        if layers[end.cell] <= layers[net.source.cell]
    }


class _Sheet:
    """The places of a web across, and from them everything along."""

    def __init__(self, web: Web, across: list[float]) -> None:
        self._web = web
        self._across = across
        self._breadth = max(
            (at + breadth for at, breadth in zip(across, web.breadths, strict=True)), default=0.0
        )
        self._trunks: list[dict[int, Trunk]] = []
        self._begins: list[float] = []  # of layers, along
        count = len(web.level.cells)
        self._lengths = [
            max((web.level.cells[each].length for each in row if each < count), default=0.0)
            for row in web.layers
        ]
        self._first_lanes: list[float] = []  # of gaps, along
        at = 0.0
        for number, pieces in enumerate(web.gaps):
            trunks = {
                net: Trunk(
                    [self._at(hold) for hold in piece.before],
                    [self._at(hold) for hold in piece.behind],
                    [self._breadth] if piece.has_drop else [],
                )
                for net, piece in pieces.items()
            }
            self._trunks.append(trunks)
            lanes = assign_lanes(list(trunks.values()))
            before, length = self._gap(number, lanes)
            self._first_lanes.append(at + before)
            at += length
            if number < len(web.layers):
                self._begins.append(at)
                at += self._lengths[number]
        self._length = at

    def _at(self, hold: Hold) -> float:
        return self._across[hold[0]] + hold[1]

    def _gap(self, number: int, lanes: int) -> tuple[float, float]:
        """Return the distance to the first lane, and the length of the gap."""
        count = len(self._web.layers)
        before = self._side(number - 1) if number else 0.0
        behind = self._side(number) if number < count else 0.0
        width = LANE_GAP * max(lanes - 1, 0)
        if 0 < number < count:
            length = before + width + behind
            has_ends = _END_GAP / 2 in (before, behind)
            return before, length if lanes or has_ends else max(_LAYER_GAP, length)
        layer = 0 if number == 0 else -1
        if count and all(self._web.is_knot(each) for each in self._web.layers[layer]):
            return 0.0, width
        return before, (before + width + behind if lanes else self._loop_room(layer))

    def _side(self, layer: int) -> float:
        """Return the distance between a layer and the next lane."""
        if all(self._web.is_knot(each) for each in self._web.layers[layer]):
            return _END_GAP / 2
        room = self._loop_room(layer)
        return max(_CELL_LANE, room + LOOP_GAP if room else 0.0)

    def _loop_room(self, layer: int) -> float:
        """Return how far the loops of single cells reach out of a layer."""
        row = self._web.layers[layer] if self._web.layers else []
        counts = [self._web.loop_counts[each] for each in row if each in self._web.loop_counts]
        return LOOP_SIDE + LOOP_GAP * (max(counts) - 1) if counts else 0.0

    def placement(self) -> Placement:
        web = self._web
        starts = []
        for cell, layer in enumerate(web.layer_of[: len(web.level.cells)]):
            room = self._lengths[layer] - web.level.cells[cell].length
            align = web.level.cells[cell].align
            shift = {"start": 0.0, "middle": room / 2, "end": room}[align]
            starts.append((self._begins[layer] + shift, self._across[cell] + web.heads[cell]))
        paths = {}
        for net, each in enumerate(web.level.nets):
            for number in range(len(each.targets)):
                paths[net, number] = straightened(self._path(net, number, starts))
            if each.has_drop:
                paths[net, len(each.targets)] = straightened(self._drop(net, starts))
        return Placement(
            self._length,
            self._breadth,
            list(web.level.cells),
            starts,
            paths,
            self._junctions(starts),
        )

    def _path(self, net: int, number: int, starts: list[Point]) -> list[Point]:
        web = self._web
        source, target = web.level.nets[net].source, web.level.nets[net].targets[number]
        begin = (
            starts[source.cell][0] + web.level.cells[source.cell].length,
            self._at(web.source(net)),
        )
        end = (starts[target.cell][0], self._at(web.target(net, number)))
        first, last = web.layer_of[source.cell], web.layer_of[target.cell]
        points = [begin]
        at = begin[1]
        if (net, number) in web.loops:
            above = self._across[source.cell] + web.loop_across(net, number)
            out = LOOP_SIDE + LOOP_GAP * web.loops[net, number]
            right, left = begin[0] + out, end[0] - out
            return [begin, (right, begin[1]), (right, above), (left, above), (left, end[1]), end]
        if last > first:
            for layer in range(first + 1, last + 1):
                to = end[1] if layer == last else self._across[web.ahead[net][layer]]
                points += self._across_gap(layer, net, at, to, from_before=True, to_before=False)
                at = to
            return [*points, end]
        to = self._across[web.behind[net][first]]
        points += self._across_gap(first + 1, net, at, to, from_before=True, to_before=True)
        at = to
        for layer in range(first, last - 1, -1):
            to = end[1] if layer == last else self._across[web.behind[net][layer - 1]]
            points += self._across_gap(
                layer, net, at, to, from_before=False, to_before=layer != last
            )
            at = to
        return [*points, end]

    def _drop(self, net: int, starts: list[Point]) -> list[Point]:
        web = self._web
        cell = web.level.nets[net].source.cell
        gap = web.layer_of[cell] + 1
        at = self._at(web.source(net))
        lane = self._lane(gap, self._trunks[gap][net].lane)
        begin = (starts[cell][0] + web.level.cells[cell].length, at)
        return [begin, (lane, at), (lane, self._breadth)]

    def _across_gap(
        self, gap: int, net: int, at: float, to: float, *, from_before: bool, to_before: bool
    ) -> list[Point]:
        trunk = self._trunks[gap][net]
        if trunk.is_straight:
            return []
        first = self._lane(gap, trunk.lane)
        if trunk.second < 0:
            return [(first, at), (first, to)]
        second = self._lane(gap, trunk.second)
        lanes = (first if from_before else second, first if to_before else second)
        if lanes[0] == lanes[1]:
            return [(lanes[0], at), (lanes[0], to)]
        middle = trunk.middle
        return [(lanes[0], at), (lanes[0], middle), (lanes[1], middle), (lanes[1], to)]

    def _lane(self, gap: int, lane: int) -> float:
        return self._first_lanes[gap] + LANE_GAP * lane

    def _junctions(self, starts: list[Point]) -> list[Point]:
        found = []
        for net, number in self._web.loops:
            # A stream that others read, too, parts where the loop begins.
            each = self._web.level.nets[net]
            if len(each.targets) > 1 or each.has_drop:
                found.append(self._path(net, number, starts)[1])
        for gap, trunks in enumerate(self._trunks):
            for trunk in trunks.values():
                if trunk.is_straight:
                    continue
                parts = [(trunk.lane, list(trunk.before), list(trunk.behind))]
                extra = list(trunk.extra)
                if trunk.second >= 0:
                    parts = [
                        (trunk.lane, list(trunk.before), [trunk.middle]),
                        (trunk.second, [trunk.middle], list(trunk.behind)),
                    ]
                for lane, before, behind in parts:
                    found += [(self._lane(gap, lane), at) for at in branches(before, behind, extra)]
        return found


def branches(before: list[float], behind: list[float], extra: Sequence[float] = ()) -> list[float]:
    """Return the places on a trunk where more than two of its lines meet."""
    places = sorted({*before, *behind, *extra})
    return [
        at
        for at in places
        if (at in before) + (at in behind) + (at != places[0]) + (at != places[-1]) > 2
    ]


def straightened(points: list[Point]) -> list[Point]:
    """Return the corners of a line, without points between or on one another."""
    kept: list[Point] = []
    for point in points:
        if kept and abs(kept[-1][0] - point[0]) < 0.01 and abs(kept[-1][1] - point[1]) < 0.01:
            continue
        while len(kept) > 1 and _is_between(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return kept


def _is_between(first: Point, middle: Point, last: Point) -> bool:
    for axis in (0, 1):
        if abs(first[axis] - middle[axis]) < 0.01 and abs(middle[axis] - last[axis]) < 0.01:
            return True
    return False
