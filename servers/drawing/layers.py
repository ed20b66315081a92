"""The layers of the cells of a level. Lines run forward as far as possible, and are short."""

from __future__ import annotations

from collections.abc import Sequence

from servers.drawing.level import Level

#: How often cells and groups of cells are moved towards their neighbours.
_ROUNDS = 8

Edge = tuple[int, int]


def forward_edges(level: Level) -> tuple[list[Edge], set[tuple[int, int]]]:
    """Return the edges between cells that run forward, and the targets whose lines run back.

    Targets are indexes of net and target. Back edges run back, and edges that would close a cycle:
    groups can form cycles that their nodes do not.
    """
    after: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    back = set()
    for place, net in enumerate(level.nets):
        for number, target in enumerate(net.targets):
            if target.is_back or target.cell == net.source.cell:
                back.add((place, number))
            else:
                after.setdefault(net.source.cell, []).append((target.cell, (place, number)))
    state = [0] * len(level.cells)  # 1: on the path, 2: finished
    for start in range(len(level.cells)):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(after.get(start, ())))]
        while stack:
            cell, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[cell] = 2
                stack.pop()
            elif state[following[0]] == 1:
                back.add(following[1])
            elif not state[following[0]]:
                state[following[0]] = 1
                stack.append((following[0], iter(after.get(following[0], ()))))
    edges = [
        (source, target)
        for source, targets in after.items()
        for target, key in targets
        if key not in back
    ]
    return edges, back


def assign_layers(level: Level, edges: Sequence[Edge]) -> list[int]:
    """Return the layer of each cell, from 0: no edge inside a layer, and short edges.

    Layer 0 is for cells pinned to the beginning, the last layer for cells pinned to the end.
    """
    cells = level.cells
    first = 1 if any(cell.pin == "first" for cell in cells) else 0
    free = [place for place, cell in enumerate(cells) if cell.pin == "free"]
    inner = [(a, b) for a, b in edges if cells[a].pin == "free" and cells[b].pin == "free"]
    layers = [0] * len(cells)
    before: dict[int, list[int]] = {place: [] for place in free}
    after: dict[int, list[int]] = {place: [] for place in free}
    for source, target in inner:
        before[target].append(source)
        after[source].append(target)
    order = _topological(free, before, after)
    for place in order:
        layers[place] = max((layers[each] + 1 for each in before[place]), default=first)
    last = max((layers[place] for place in free), default=first - 1) + 1
    # Lines to the ends pull too, but do not limit.
    pulls = dict.fromkeys(free, 0)
    for source, target in edges:
        if cells[source].pin == "first" and target in pulls:
            pulls[target] -= 1
        if cells[target].pin == "last" and source in pulls:
            pulls[source] += 1
    for _ in range(_ROUNDS):
        is_moved = _move_cells(order, before, after, pulls, layers, first, last)
        is_moved |= _move_groups(free, inner, pulls, layers, first, last)
        if not is_moved:
            break
    lowest = min((layers[place] for place in free), default=first)
    for place in free:
        layers[place] += first - lowest
    last = max((layers[place] for place in free), default=first - 1) + 1
    for place, cell in enumerate(cells):
        if cell.pin == "last":
            layers[place] = last
    return layers


def _move_cells(
    order: list[int],
    before: dict[int, list[int]],
    after: dict[int, list[int]],
    pulls: dict[int, int],
    layers: list[int],
    first: int,
    last: int,
) -> bool:
    is_moved = False
    for place in reversed(order):
        pull = len(after[place]) - len(before[place]) + pulls[place]
        if pull > 0:
            to = min((layers[each] for each in after[place]), default=last) - 1
        elif pull < 0:
            to = max((layers[each] for each in before[place]), default=first - 1) + 1
        else:
            continue
        is_moved |= to != layers[place]
        layers[place] = to
    return is_moved


def _move_groups(
    free: list[int],
    edges: Sequence[Edge],
    pulls: dict[int, int],
    layers: list[int],
    first: int,
    last: int,
) -> bool:
    """Move cells together that are joined by edges between neighbouring layers."""
    group = {place: place for place in free}

    def find(place: int) -> int:
        while group[place] != place:
            group[place] = group[group[place]]
            place = group[place]
        return place

    for source, target in edges:
        if layers[target] - layers[source] == 1:
            group[find(source)] = find(target)
    pull: dict[int, int] = {}
    room: dict[int, list[int]] = {}
    for place in free:
        root = find(place)
        pull[root] = pull.get(root, 0) + pulls[place]
        limits = room.setdefault(root, [10**9, 10**9])
        limits[0] = min(limits[0], layers[place] - first)
        limits[1] = min(limits[1], last - 1 - layers[place])
    for source, target in edges:
        a, b = find(source), find(target)
        if a != b:
            slack = layers[target] - layers[source] - 1
            pull[a] += 1
            pull[b] -= 1
            room[a][1] = min(room[a][1], slack)
            room[b][0] = min(room[b][0], slack)
    for root in sorted(pull, key=lambda each: (-abs(pull[each]), each)):
        step = room[root][1] if pull[root] > 0 else -room[root][0] if pull[root] < 0 else 0
        if step:
            for place in free:
                if find(place) == root:
                    layers[place] += step
            return True
    return False


def _topological(
    cells: Sequence[int], before: dict[int, list[int]], after: dict[int, list[int]]
) -> list[int]:
    missing = {cell: len(before[cell]) for cell in cells}
    order = [cell for cell in cells if not missing[cell]]
    for cell in order:
        for target in after[cell]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order
