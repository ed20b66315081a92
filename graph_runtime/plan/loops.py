"""Back edges that contracts make superfluous in graphs."""

from __future__ import annotations

from collections.abc import Sequence

from graph_runtime.plan.node_draft import NodeDraft


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
