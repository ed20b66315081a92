"""The order of nodes: producers before consumers, else as the graph has them.

`close_loops` finds the edges that count as back edges although the graph does not say so.
Source: MediaPipe ``framework/deps/topologicalsorter.cc``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from graph_runtime.plan.node_draft import NodeDraft


class CycleError(ValueError):
    """The nodes have no order. ``places``: the nodes of one cycle, from the lowest on."""

    def __init__(self, places: list[int]) -> None:
        super().__init__(places)
        self.places = places


def topological_order(before: Sequence[AbstractSet[int]]) -> list[int]:
    """An order of the places in which each comes after those in ``before[place]``.

    Kahn's algorithm, always with the smallest place that can come next. Places that are in order
    already stay exactly as they are.

    Raises:
        CycleError: some nodes need each other.
    """
    if all(not needed or max(needed) < place for place, needed in enumerate(before)):
        return list(range(len(before)))
    after: list[list[int]] = [[] for _ in before]
    missing = [len(needed) for needed in before]
    for place, needed in enumerate(before):
        for earlier in needed:
            after[earlier].append(place)
    ready = [place for place, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for later in after[place]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(ready, later)
    if len(order) < len(before):
        raise CycleError(_find_cycle(set(range(len(before))) - set(order), before))
    return order


def _find_cycle(left: set[int], before: Sequence[AbstractSet[int]]) -> list[int]:
    """A cycle among the places that could not be ordered: each has one before it that is left."""
    place = min(left)
    seen: dict[int, int] = {}
    path: list[int] = []
    while place not in seen:
        seen[place] = len(path)
        path.append(place)
        place = min(before[place] & left)
    # Walked from consumer to producer, returned in the direction of the packets.
    cycle = path[seen[place] :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def close_loops(drafts: Sequence[NodeDraft]) -> None:
    """Make a back edge of each loose input (`NodeDraft.loose_inputs`) that closes a loop.

    Streams to nodes that come later in the graph are taken for forward edges first, then the first
    inputs of all tags, then the second ones and so on, as far as they close no loop.
    """
    if not any(draft.loose_inputs for draft in drafts):
        return
    makers: dict[str, int] = {}
    for node, draft in enumerate(drafts):
        for name in draft.outputs.names:
            makers.setdefault(name, node)
    readers: list[set[int]] = [set() for _ in drafts]
    loose: list[tuple[bool, int, int, int]] = []
    for node, draft in enumerate(drafts):
        for place, name in enumerate(draft.inputs.names):
            if name not in makers or place in draft.back_edges:
                continue
            if place in draft.loose_inputs:
                is_backward = makers[name] >= node
                loose.append((is_backward, draft.inputs.keys[place][1], node, place))
            else:
                readers[makers[name]].add(node)
    for _, _, node, place in sorted(loose):
        draft = drafts[node]
        maker = makers[draft.inputs.names[place]]
        if _reaches(readers, node, maker):
            draft.back_edges |= {place}
        else:
            readers[maker].add(node)


def _reaches(readers: Sequence[set[int]], start: int, end: int) -> bool:
    found, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node == end:
            return True
        waiting += readers[node] - found
        found |= readers[node]
    return False
