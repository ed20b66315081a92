"""Long drawings folded: bands of layers, one below the other, as lines of a text.

A line that leaves its band drops from its source to a lane below the band, goes back to the
beginning in it, and from there, in a channel, to the band where it goes on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from servers.drawing.level import Cell, CellPlaces, Level, Net, NetEnd, Point, crossings
from servers.drawing.places import GAPS
from servers.drawing.sheet import (
    LANE_GAP,
    Trunk,
    assign_lanes,
    branches,
    lay_out_level,
    straightened,
)

#: The room that drawings are read in, and how small they may become in it without being folded.
ROOM = (1440.0, 850.0)
READABLE = 0.7
#: About the length of a gap between layers.
_GAP = 60.0
#: Breadth of a layer in multiples of its cells, about.
_SPREAD = 1.25
#: From a band to the lanes below it, and from them to the next band.
_BELOW = 18.0
_ABOVE = 22.0
#: The advantage that one fold more needs.
_WORTH = 1.08
#: Gain of a drawing with one crossing less.
_UNCROSSED = 0.98
#: Numbers of bands that are compared by being laid out, in graphs of up to so many cells.
_COMPARED = 3
_COMPARED_UP_TO = 60
#: Layers up to which every cut is tried; beyond, those whose bands are at most so far from one
#: length, of as many numbers of bands as are compared.
_ALL_CUTS_UP_TO = 120
_OFF = 0.5


def choose_bands(level: Level, layers: Sequence[int]) -> list[list[int]]:
    """Return candidates for the first layers of all bands but the first, the most promising first.

    An empty list is a drawing that is not folded; it is the only candidate if that can be read.
    """
    count = max(layers, default=-1) + 1
    lengths = [0.0] * count
    breadths = [0.0] * count
    for cell, layer in zip(level.cells, layers, strict=True):
        lengths[layer] = max(lengths[layer], cell.length)
        breadths[layer] += cell.breadth + GAPS[0]
    lengths = [each + _GAP for each in lengths]
    cuts = _cut_costs(level, layers, count)
    breadths = [
        each * _SPREAD + GAPS[2] * lines for each, lines in zip(breadths, cuts, strict=True)
    ]
    if sum(lengths) * READABLE <= ROOM[0]:
        return [[]]
    found: list[list[int]] = [[]]
    most = math.isqrt(math.ceil(sum(lengths) / max(breadths))) + 1
    numbers: Sequence[int] = range(2, min(most, count // 2) + 1)

    def worth(bands: list[int]) -> float:
        return _scale(lengths, breadths, bands) / _price(bands)

    if count > _ALL_CUTS_UP_TO:
        numbers = sorted(numbers, key=lambda bands: -worth(_even(count, bands)))[:_COMPARED]
    found += [_balanced(lengths, cuts, bands) for bands in numbers]
    return sorted(found, key=lambda bands: -worth(bands))


def lay_out_folded(level: Level, layers: list[int]) -> CellPlaces:
    """Place a level, folded if that makes it easier to read."""
    candidates = choose_bands(level, layers)
    if len(candidates) == 1 or len(level.cells) > _COMPARED_UP_TO:
        bands = candidates[0]
        return fold(level, layers, bands) if bands else lay_out_level(level, layers)
    placed = [
        (bands, fold(level, layers, bands) if bands else lay_out_level(level, layers))
        for bands in candidates[:_COMPARED]
    ]
    return max(placed, key=lambda each: _readable(each[1]) / _price(each[0]))[1]


def _readable(placed: CellPlaces) -> float:
    """Return how large the drawing can be in its room, at most 1, less a share for crossings."""
    scale = min(ROOM[0] / max(placed.length, 1), ROOM[1] / max(placed.breadth, 1), 1.0)
    return float(scale * _UNCROSSED ** crossings(placed.lines()))


def _price(bands: list[int]) -> float:
    return float(_WORTH ** len(bands))


def _cut_costs(level: Level, layers: Sequence[int], count: int) -> list[int]:
    """Return the number of nets over the beginning of each layer."""
    costs = [0] * count
    for net in level.nets:
        ends = [layers[net.source.cell], *(layers[end.cell] for end in net.targets)]
        for layer in range(min(ends) + 1, max(ends) + 1):
            costs[layer] += 1
    return costs


def _scale(lengths: list[float], breadths: list[float], bands: list[int]) -> float:
    edges = [0, *bands, len(lengths)]
    spans = list(pairwise(edges))
    length = max(sum(lengths[a:b]) for a, b in spans) + (80.0 if bands else 0.0)
    breadth = sum(max(breadths[a:b]) for a, b in spans) + 70.0 * len(bands)
    return min(ROOM[0] / length, ROOM[1] / breadth, 1.0)


def _even(count: int, bands: int) -> list[int]:
    return [count * band // bands for band in range(1, bands)]


def _balanced(lengths: list[float], cuts: list[int], bands: int) -> list[int]:
    """Return cuts into bands of about one length, where few nets are cut."""
    count = len(lengths)
    ideal = sum(lengths) / bands
    sums = [0.0]
    for each in lengths:
        sums.append(sums[-1] + each)
    off_by = _OFF if count > _ALL_CUTS_UP_TO else math.inf
    # By the first layer of the next band: the cost, and the first layers of the bands so far.
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for band in range(1, bands + 1):
        before, best = best, {}
        first, last = count, count
        if band < bands:
            first = max(band, bisect_left(sums, (band - off_by) * ideal))
            last = min(count, bisect_right(sums, (band + off_by) * ideal))
        for end in range(first, last + 1):
            found = None
            for begin, (so_far, path) in before.items():
                if begin >= end:
                    break
                off = (sums[end] - sums[begin]) / ideal - 1
                cost = so_far + 12 * off * off + (cuts[begin] / 3 if begin else 0)
                if found is None or cost < found[0]:
                    found = cost, (*path, begin)
            if found is not None:
                best[end] = found
    # Layers that are longer than a band may leave no cut near its end.
    return list(best[count][1][1:]) if best else _even(count, bands)


@dataclass
class _Band:
    """A band as a level of its own. Entries are cells by net."""

    layers: list[int] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    nets: list[Net] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    exits: list[int] = field(default_factory=list)
    #: Net and target of the band, by net and target of the whole level; target -1 is the drop.
    keys: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def fold(level: Level, layers: Sequence[int], first_layers: Sequence[int]) -> CellPlaces:
    """Place a level in bands that begin at ``first_layers`` and at layer 0."""
    band_of = _bands_of(level, layers, first_layers)
    local: list[int] = [0] * len(level.cells)
    bands = [_Band() for _ in range(len(first_layers) + 1)]
    begins = [0, *first_layers]
    ends = [*first_layers, max(layers, default=0)]
    for cell, number in enumerate(band_of):
        band = bands[number]
        local[cell] = len(band.cells)
        band.cells.append(level.cells[cell])
        # Layer 0 is for entries, layer 1 for cells that stand with those they lead to.
        layer = min(max(layers[cell], begins[number] - 1), ends[number])
        band.layers.append(layer - begins[number] + 2)
    for net in range(len(level.nets)):
        _add_net(level, net, bands, band_of, local)
    for band in bands:
        band.layers += [0] * len(band.entries)
        used = sorted(set(band.layers))
        band.layers = [used.index(layer) for layer in band.layers]
    placed = [
        lay_out_level(Level(tuple(band.cells), tuple(band.nets)), band.layers) for band in bands
    ]
    return _Folded(level, bands, placed, band_of, local).placement()


def _bands_of(level: Level, layers: Sequence[int], first_layers: Sequence[int]) -> list[int]:
    """Return the band of each cell. A cell at an end of the graph stands with its neighbours."""
    bands = [sum(layer >= first for first in first_layers) for layer in layers]
    before: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for net in level.nets:
        for end in net.targets:
            before.setdefault(end.cell, []).append(net.source.cell)
            behind.setdefault(net.source.cell, []).append(end.cell)
    found = list(bands)
    for cell, band in enumerate(bands):
        if cell not in before and cell in behind:
            found[cell] = max(band, min(bands[each] for each in behind[cell]))
        elif cell not in behind and cell in before:
            found[cell] = min(band, max(bands[each] for each in before[cell]))
    return found


def _add_net(
    level: Level, place: int, bands: list[_Band], band_of: list[int], local: list[int]
) -> None:
    net = level.nets[place]
    home = band_of[net.source.cell]
    by_band: dict[int, list[int]] = {home: []}
    for number, end in enumerate(net.targets):
        by_band.setdefault(band_of[end.cell], []).append(number)
    for number, targets in by_band.items():
        band = bands[number]
        ends = [NetEnd(local[net.targets[each].cell], net.targets[each].port) for each in targets]
        for each, target in enumerate(targets):
            band.keys[place, target] = (len(band.nets), each)
        if number == home:
            source = NetEnd(local[net.source.cell], net.source.port)
            if len(by_band) > 1:
                band.exits.append(place)
                band.keys[place, -1] = (len(band.nets), len(ends))
        else:
            band.entries[place] = len(band.cells)
            source = NetEnd(len(band.cells), 0)
            band.cells.append(Cell(0.0, 0.0, (), (0.0,), "first"))
        band.nets.append(Net(source, tuple(ends), place in band.exits, net.weight))


class _Folded:
    """Bands with their places, and the lanes between them."""

    def __init__(
        self,
        level: Level,
        bands: list[_Band],
        placed: list[CellPlaces],
        band_of: list[int],
        local: list[int],
    ) -> None:
        self._level = level
        self._bands = bands
        self._placed = placed
        self._band_of = band_of
        self._local = local
        self._tops: list[float] = []
        self._belows: dict[int, float] = {}  # the lane below the band of its source, by net
        at = 0.0
        for band, each in zip(bands, placed, strict=True):
            self._tops.append(at)
            at += each.breadth
            # The first one to drop gets the first lane, so that none of them cross.
            order = sorted(band.exits, key=lambda net: self._drop(net)[0])
            for rank, net in enumerate(order):
                self._belows[net] = at + _BELOW + LANE_GAP * rank
            at += _BELOW + LANE_GAP * max(len(order) - 1, 0) + _ABOVE
        self._breadth = at - _ABOVE - (0.0 if bands[-1].exits else _BELOW)
        self._nets = list(self._belows)
        self._trunks = [
            Trunk(
                [],
                [
                    self._belows[net],
                    *(
                        top + each.starts[band.entries[net]][1]
                        for top, each, band in zip(self._tops, placed, bands, strict=True)
                        if net in band.entries
                    ),
                ],
            )
            for net in self._nets
        ]
        lanes = assign_lanes(self._trunks)
        #: Where the bands begin, after the channel.
        self._left = LANE_GAP * max(lanes - 1, 0) + 12.0

    def _drop(self, net: int) -> Point:
        """Return the end of a net's drop in the band of its source."""
        home = self._band_of[self._level.nets[net].source.cell]
        return self._placed[home].paths[self._bands[home].keys[net, -1]][-1]

    def placement(self) -> CellPlaces:
        starts = []
        for cell, band in enumerate(self._band_of):
            x, y = self._placed[band].starts[self._local[cell]]
            starts.append((x + self._left, y + self._tops[band]))
        junctions = [
            (x + self._left, y + top)
            for each, top in zip(self._placed, self._tops, strict=True)
            for x, y in each.junctions
        ]
        for trunk in self._trunks:
            along = LANE_GAP * trunk.lane
            junctions += [(along, at) for at in branches([], list(trunk.behind))]
        paths = {
            (net, number): straightened(self._path(net, number))
            for net, each in enumerate(self._level.nets)
            for number in range(len(each.targets))
        }
        length = max(each.length for each in self._placed)
        cells = [
            self._placed[band].cells[self._local[cell]] for cell, band in enumerate(self._band_of)
        ]
        return CellPlaces(length + self._left, self._breadth, cells, starts, paths, junctions)

    def _path(self, net: int, number: int) -> list[Point]:
        home = self._band_of[self._level.nets[net].source.cell]
        to = self._band_of[self._level.nets[net].targets[number].cell]
        if home == to:
            return self._part(home, net, number)
        out, into = self._part(home, net, -1), self._part(to, net, number)
        below = self._belows[net]
        lane = LANE_GAP * self._trunks[self._nets.index(net)].lane
        turns = [(out[-1][0], below), (lane, below), (lane, into[0][1])]
        return [*out, *turns, *into]

    def _part(self, band: int, net: int, number: int) -> list[Point]:
        points = self._placed[band].paths[self._bands[band].keys[net, number]]
        return [(x + self._left, y + self._tops[band]) for x, y in points]
