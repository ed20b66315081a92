"""The streams of a graph's text: where they are made and read, and what renaming changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graph_runtime.language.statements import DraftText, Statement


@dataclass(frozen=True, slots=True)
class StreamUse:
    """A place that names a stream or a side packet; ``start`` and ``end`` are of its name."""

    name: str
    start: int
    end: int
    is_side: bool
    is_producer: bool


def uses(draft: DraftText) -> Iterator[StreamUse]:
    """Yield all uses of streams and side packets that have a name."""
    for each in draft.ports():
        name = each.value.rpartition(":")[2]
        if name:
            end = each.start + 1 + len(each.value)
            is_input = each.name.startswith("input")
            yield StreamUse(
                name,
                end - len(name),
                end,
                each.name.endswith("side_packet"),
                # The inputs of the graph are made outside; nodes make their outputs.
                is_input if not each.path else not is_input,
            )


def use_at(draft: DraftText, offset: int) -> StreamUse | None:
    """Return the use whose name is at an offset."""
    return next((each for each in uses(draft) if each.start <= offset <= each.end), None)


def uses_like(draft: DraftText, use: StreamUse) -> list[StreamUse]:
    """Return all uses of the same stream."""
    return [each for each in uses(draft) if (each.name, each.is_side) == (use.name, use.is_side)]


def produced_names(draft: DraftText, *, is_side: bool) -> list[tuple[str, str]]:
    """Return the names of streams that something makes, with the makers in words."""
    found: dict[str, str] = {}
    for each in draft.ports():
        name = each.value.rpartition(":")[2]
        is_input = each.name.startswith("input")
        is_producer = is_input if not each.path else not is_input
        if name and is_producer and each.name.endswith("side_packet") is is_side:
            found.setdefault(name, maker(draft, each))
    return list(found.items())


def maker(draft: DraftText, statement: Statement) -> str:
    """Describe the maker of a stream in words."""
    if statement.node is None:
        return "graph input"
    values = {each.name: each.value for each in draft.of_node(statement.node)}
    return f"of {values.get('name') or values.get('calculator', 'a node')}"
