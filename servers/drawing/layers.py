"""The layers of the cells of a level. Links run down as far as possible."""

from __future__ import annotations

from collections.abc import Sequence

from servers.drawing.level import Cell, Link


def split_links(cells: Sequence[Cell], links: Sequence[Link]) -> tuple[list[Link], list[Link]]:
    """Return the links that run down and the links that run up.

    Marked back edges run up, and links that would close a cycle: groups can form cycles that their
    nodes do not.
    """
    after: dict[int, list[Link]] = {}
    for link in links:
        if not link.is_back and link.source != link.target:
            after.setdefault(link.source, []).append(link)
    up = {id(link) for link in links if link.is_back or link.source == link.target}
    state = [0] * len(cells)  # 1: on the path, 2: finished
    for start in range(len(cells)):
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
            elif state[following.target] == 1:
                up.add(id(following))
            elif not state[following.target]:
                state[following.target] = 1
                stack.append((following.target, iter(after.get(following.target, ()))))
    down = [link for link in links if id(link) not in up]
    return down, [link for link in links if id(link) in up]


def assign_layers(cells: Sequence[Cell], down: Sequence[Link]) -> list[int]:
    """Return the layer of each cell, from 0: one below the lowest cell above it (longest path).

    Layer 0 is for cells pinned to the top, the last layer for cells pinned to the bottom. A cell
    with no cell above it is placed directly above its readers.
    """
    has_top = any(cell.pin == "top" for cell in cells)
    first = 1 if has_top else 0
    layers = [0 if cell.pin == "top" else first for cell in cells]
    order = _topological(len(cells), down)
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for link in down:
        above.setdefault(link.target, []).append(link.source)
        below.setdefault(link.source, []).append(link.target)
    for place in order:
        if cells[place].pin != "top":
            sources = [layers[source] + 1 for source in above.get(place, ())]
            layers[place] = max(sources, default=first)
    free = [place for place, cell in enumerate(cells) if cell.pin == "free"]
    last = max((layers[place] for place in free), default=0)
    for place, cell in enumerate(cells):
        if cell.pin == "bottom":
            layers[place] = last + 1
    for place in reversed(order):
        if cells[place].pin == "free" and place not in above and place in below:
            layers[place] = max(first, min(layers[target] for target in below[place]) - 1)
    return layers


def _topological(count: int, down: Sequence[Link]) -> list[int]:
    missing = [0] * count
    below: dict[int, list[int]] = {}
    for link in down:
        missing[link.target] += 1
        below.setdefault(link.source, []).append(link.target)
    order = [cell for cell in range(count) if not missing[cell]]
    for cell in order:
        for target in below.get(cell, ()):
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order
