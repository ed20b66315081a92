"""The layers of the cells of a level. Lines run forward as far as possible, and are short.

The layers have the shortest edges, by network simplex (Gansner, Koutsofios, North, Vo 1993).
"""

from __future__ import annotations

from collections.abc import Sequence

from servers.drawing.level import Level

#: From a node to a later one, and the weight of its length.
_WeightedEdge = tuple[int, int, int]


def shorten(layers: list[int], edges: Sequence[_WeightedEdge]) -> None:
    """Move nodes between layers until the sum of the lengths of all edges is smallest.

    Args:
        layers: of each node; each edge leads to a later layer, and does so afterwards.
        edges: that join all nodes, over others.
    """
    if len(layers) > 1:
        _Simplex(layers, edges).run()


class _Simplex:
    """A spanning tree of edges between neighbouring layers, improved edge by edge."""

    def __init__(self, layers: list[int], edges: Sequence[_WeightedEdge]) -> None:
        self._layers = layers
        self._edges = edges
        self._surplus = [0] * len(layers)  # weight of the edges out less that of the edges in
        for source, target, weight in edges:
            self._surplus[source] += weight
            self._surplus[target] -= weight
        self._tree: set[int] = set()
        self._span()

    def run(self) -> None:
        # Ties can go round in circles; each exchange keeps the edges as short as before.
        for _ in range(2 * len(self._layers)):
            if not self._exchange():
                return

    def _slack(self, edge: int) -> int:
        source, target, _ = self._edges[edge]
        return self._layers[target] - self._layers[source] - 1

    def _span(self) -> None:
        """Grow a tree of tight edges, and move it towards its nearest neighbour if it ends."""
        inside = {0}
        at: list[list[int]] = [[] for _ in self._layers]
        for edge, (source, target, _) in enumerate(self._edges):
            at[source].append(edge)
            at[target].append(edge)
        fresh = [0]
        while len(inside) < len(self._layers):
            while fresh:
                for edge in at[fresh.pop()]:
                    source, target, _ = self._edges[edge]
                    if (source in inside) != (target in inside) and not self._slack(edge):
                        self._tree.add(edge)
                        node = target if source in inside else source
                        inside.add(node)
                        fresh.append(node)
            nearest = min(
                (
                    (self._slack(edge), edge)
                    for edge, (source, target, _) in enumerate(self._edges)
                    if (source in inside) != (target in inside)
                ),
                default=None,
            )
            if nearest is None:
                return
            slack, edge = nearest
            step = slack if self._edges[edge][0] in inside else -slack
            for node in inside:
                self._layers[node] += step
            fresh = [self._edges[edge][0 if step > 0 else 1]] if slack else []

    def _exchange(self) -> bool:
        """Exchange the edge of the tree that costs most for another one."""
        near: list[list[tuple[int, int]]] = [[] for _ in self._layers]
        for edge in sorted(self._tree):
            source, target, _ = self._edges[edge]
            near[source].append((target, edge))
            near[target].append((source, edge))
        parent = {0: (-1, -1)}
        order = [0]
        for node in order:
            for other, edge in near[node]:
                if other not in parent:
                    parent[other] = (node, edge)
                    order.append(other)
        sums = list(self._surplus)
        worst, leaving, root = 0, -1, -1
        for node in reversed(order[1:]):
            up, edge = parent[node]
            sums[up] += sums[node]
            # The weight of edges along this one less that of edges against it.
            cut = sums[node] if self._edges[edge][0] == node else -sums[node]
            if cut < worst:
                worst, leaving, root = cut, edge, node
        if leaving < 0:
            return False
        below = {root}
        for node in order[order.index(root) + 1 :]:
            if parent[node][0] in below:
                below.add(node)
        # The edge leads from its tail's side to its head's; the new one leads the other way.
        is_tail_below = self._edges[leaving][0] == root
        entering = min(
            (
                (self._slack(edge), edge)
                for edge, (source, target, _) in enumerate(self._edges)
                if ((target in below) and source not in below) == is_tail_below
                and (source in below) != (target in below)
            ),
            default=None,
        )
        if entering is None:
            return False
        slack, edge = entering
        step = -slack if is_tail_below else slack
        for node in below:
            self._layers[node] += step
        self._tree.remove(leaving)
        self._tree.add(edge)
        return True


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
