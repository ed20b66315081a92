"""One level laid out: layers along, vertices across, lanes between the layers.

The lanes of a gap between two layers: places along for the pieces of lines that run across.

Of two pieces whose spans overlap, the one that is cut less often by the other's ends goes first
(Sander 2004). A pair of lines that would lie on one another is kept apart by the order of their
lanes, or, where two lines change places, by a lane more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from servers.drawing.layers import assign_layers, forward_edges
from servers.drawing.level import (
    LOOP_GAP,
    LOOP_SIDE,
    CellPlaces,
    Hold,
    Level,
    Point,
    Web,
    crossings,
    length,
    make_web,
)
from servers.drawing.ordering import attempts, improve, order, order_ports
from servers.drawing.places import place

#: Lines that are nearer to each other are taken for one.
CLEARANCE = 5.0
_NEVER = 1_000_000


@dataclass(slots=True)
class Trunk:
    """The part of a piece that runs across.

    Attributes:
        before, behind: places across of its ends at either side.
        lane: its number, from 0; -1 without one, because it is straight.
        extra: places that it reaches without an end.
        second: the lane after ``middle`` (across), if it needs two; else -1.
    """

    before: Sequence[float]
    behind: Sequence[float]
    extra: Sequence[float] = ()
    lane: int = -1
    second: int = -1
    middle: float = 0.0
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        ends = [*self.before, *self.behind, *self.extra]
        self.low, self.high = min(ends), max(ends)

    @property
    def is_straight(self) -> bool:
        return self.high - self.low < 0.01


def assign_lanes(trunks: Sequence[Trunk]) -> int:
    """Give each trunk its lane, and return the number of lanes."""
    bent = [trunk for trunk in trunks if not trunk.is_straight]
    count = len(bent)
    after: list[dict[int, int]] = [{} for _ in bent]  # lanes that follow, with what it costs if not
    apart: list[set[int]] = [set() for _ in bent]
    for a in range(count):
        for b in range(a + 1, count):
            first, second = bent[a], bent[b]
            if first.low >= second.high + CLEARANCE or second.low >= first.high + CLEARANCE:
                continue
            apart[a].add(b)
            apart[b].add(a)
            cost = _cost(first, second) - _cost(second, first)
            if cost < 0:
                after[a][b] = -cost
            elif cost > 0:
                after[b][a] = cost
    order = _without_cycles(count, after)
    lanes = [-1] * count
    place = {each: number for number, each in enumerate(order)}
    for each in order:
        least = max(
            (
                lanes[other] + 1
                for other in apart[each]
                if place[other] < place[each] and each in after[other]
            ),
            default=0,
        )
        taken = {lanes[other] for other in apart[each] if lanes[other] >= 0}
        while least in taken:
            least += 1
        lanes[each] = least
    number = max(lanes, default=-1) + 1
    for each, lane in enumerate(lanes):
        bent[each].lane = lane
    return _split(bent, number)


def _cost(first: Trunk, second: Trunk) -> int:
    """Return the number of crossings if the first one has the lane before the second one's."""
    total = 0
    for end in first.behind:
        total += second.low < end < second.high
        if any(abs(end - other) < CLEARANCE for other in second.before):
            total += _NEVER
    for end in second.before:
        total += first.low < end < first.high
    return total


def _without_cycles(count: int, after: list[dict[int, int]]) -> list[int]:
    """Return an order in which few and cheap rules are broken (Eades, Lin, Smyth 1993)."""
    ins = [0] * count
    outs = [0] * count
    before: list[dict[int, int]] = [{} for _ in range(count)]
    for a, rules in enumerate(after):
        for b, cost in rules.items():
            before[b][a] = cost
            outs[a] += cost
            ins[b] += cost
    left = dict.fromkeys(range(count))
    head: list[int] = []
    tail: list[int] = []

    def take(each: int) -> None:
        del left[each]
        for other, cost in after[each].items():
            ins[other] -= cost
        for other, cost in before[each].items():
            outs[other] -= cost

    while left:
        sinks = [each for each in left if not outs[each] and ins[each]]
        starts = [each for each in left if not ins[each]]
        if starts:
            for each in starts:
                head.append(each)
                take(each)
        elif sinks:
            for each in sinks:
                tail.append(each)
                take(each)
        else:
            each = max(left, key=lambda one: (outs[one] - ins[one], -one))
            head.append(each)
            take(each)
    return head + tail[::-1]


def _split(bent: list[Trunk], number: int) -> int:
    """Give a lane more to one of two trunks that change places."""
    for first in bent:
        for second in bent:
            if (
                first is not second
                and first.second < 0
                and second.second < 0
                and not first.extra
                and first.lane < second.lane
                and _cost(first, second) >= _NEVER
            ):
                # The lines of its ends behind begin behind the other one's ends before.
                first.second = number
                first.middle = _free(first, bent)
                number += 1
    return number


def _free(trunk: Trunk, bent: list[Trunk]) -> float:
    """Return a place across, within the trunk if possible, without the end of any line near it."""
    ends = sorted(end for each in bent for end in (*each.before, *each.behind))
    inner = [end for end in ends if trunk.low <= end <= trunk.high]
    gaps = [(b - a, (a + b) / 2) for a, b in pairwise(inner)]
    return max(gaps)[1] if gaps else (trunk.low + trunk.high) / 2


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


def lay_out_level(level: Level, layers: list[int] | None = None) -> CellPlaces:
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


def _faults(placed: CellPlaces) -> float:
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
    """Return the targets that do not stand after the source of their line."""
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

    def placement(self) -> CellPlaces:
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
        return CellPlaces(
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
