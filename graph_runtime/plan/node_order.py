"""The order of nodes: producers before consumers, else as the graph has them.

Source: MediaPipe ``framework/deps/topologicalsorter.cc``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from collections.abc import Set as AbstractSet


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
