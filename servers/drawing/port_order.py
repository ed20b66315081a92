"""The order of the ports at a side of a cell, for few crossings at the cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from servers.drawing.level import Cell, Level
from servers.drawing.web import Web

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
    """Return the places of ports: those that are there, given anew."""
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
