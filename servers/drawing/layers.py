"""The layers of the cells of a level. Lines run forward as far as possible, and are short."""

from __future__ import annotations

from collections.abc import Sequence

from servers.drawing.level import Level
from servers.drawing.network_simplex import shorten

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
    if not cells:
        return []
    # All cells of an end are one node; a node before all others keeps them together.
    free = [place for place, cell in enumerate(cells) if cell.pin == "free"]
    nodes = {cell: number for number, cell in enumerate(free, 2)}
    for place, cell in enumerate(cells):
        nodes.setdefault(place, 0 if cell.pin == "first" else 1)
    weights: dict[tuple[int, int], int] = {(0, 1): 0}
    for place in free:
        weights[0, nodes[place]] = 0
        weights[nodes[place], 1] = 0
    for source, target in edges:
        key = (nodes[source], nodes[target])
        weights[key] = weights.get(key, 0) + 1
    layers = _longest_paths(len(free) + 2, list(weights))
    shorten(layers, [(*key, weight) for key, weight in weights.items()])
    found = [layers[nodes[place]] for place in range(len(cells))]
    used = {layer: number for number, layer in enumerate(sorted(set(found)))}
    return [used[layer] for layer in found]


def _longest_paths(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the number of nodes on the longest path to each node."""
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in edges:
        after[source].append(target)
        missing[target] += 1
    layers = [0] * count
    order = [node for node in range(count) if not missing[node]]
    for node in order:
        for target in after[node]:
            layers[target] = max(layers[target], layers[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return layers
