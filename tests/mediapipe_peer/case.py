"""A case: a graph, its inputs, and the observed streams. Both sides receive the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

#: Special timestamps are sent by name, ordinary ones as numbers.
Time = int | str

#: A step of the application: ("add", stream, type, value, time), ("bound", stream, time),
#: ("close", stream), ("idle",), ("close sources",), ("done",), ("start",).
Step = tuple[Any, ...]


@dataclass(frozen=True)
class NodeText:
    """A node in the graph language."""

    calculator: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    side_inputs: tuple[str, ...] = ()
    side_outputs: tuple[str, ...] = ()
    back_edges: tuple[str, ...] = ()
    #: Fields as text: options, handler, max_in_flight and so on.
    more: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield "node {"
        yield f'  calculator: "{self.calculator}"'
        for name, values in (
            ("input_stream", self.inputs),
            ("output_stream", self.outputs),
            ("input_side_packet", self.side_inputs),
            ("output_side_packet", self.side_outputs),
        ):
            for value in values:
                yield f'  {name}: "{value}"'
        for tag_index in self.back_edges:
            yield f'  input_stream_info {{ tag_index: "{tag_index}" back_edge: true }}'
        for line in self.more:
            yield f"  {line}"
        yield "}"


def stream_of(port: str) -> str:
    """``"TAG:1:name"`` -> ``"name"``."""
    return port.rpartition(":")[2]


@dataclass(frozen=True)
class PeerCase:
    """The input of both sides.

    Attributes:
        header: graph-level fields as text.
        inputs: graph input ports.
        observed: streams to observe.
        observe_bounds: observe timestamp bounds too.
        side_packets: name -> (type, value).
        edits: changes of the finished text: (old, new), at the first place of the old one.
        reruns: how often the same steps are run again on the same graph object.
    """

    nodes: tuple[NodeText, ...]
    inputs: tuple[str, ...]
    header: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    observe_bounds: bool = True
    side_packets: dict[str, tuple[str, Any]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    add_mode: str = "WAIT_TILL_NOT_FULL"
    reruns: int = 0
    edits: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Return the graph's text."""
        text = self._text
        for old, new in self.edits:
            text = text.replace(old, new, 1)
        return text

    @property
    def _text(self) -> str:
        lines = ['executor { type: "ApplicationThreadExecutor" }', *self.header]
        lines += [f'input_stream: "{port}"' for port in self.inputs]
        for node in self.nodes:
            lines += node.lines()
        return "\n".join(lines) + "\n"

    @property
    def produced_side_packets(self) -> list[str]:
        return [stream_of(port) for node in self.nodes for port in node.side_outputs]

    @property
    def streams(self) -> set[str]:
        """Return every stream that a node produces."""
        found = {stream_of(port) for port in self.inputs}
        for node in self.nodes:
            found.update(stream_of(port) for port in node.outputs)
        return found

    def message(self) -> dict[str, Any]:
        """Return the case as JSON, for the other side."""
        return {
            "text": self.text,
            "observed": list(self.observed),
            "observe_bounds": self.observe_bounds,
            "side_packets": {name: list(value) for name, value in self.side_packets.items()},
            "produced_side_packets": self.produced_side_packets,
            "steps": [list(step) for step in self.steps],
            "add_mode": self.add_mode,
            "reruns": self.reruns,
        }

    # Smaller cases, for shrinking -----------------------------------------------------------------

    def without_node(self, place: int) -> PeerCase:
        nodes = self.nodes[:place] + self.nodes[place + 1 :]
        left = replace(self, nodes=nodes)
        return replace(left, observed=tuple(s for s in self.observed if s in left.streams))

    def with_node(self, place: int, node: NodeText) -> PeerCase:
        nodes = (*self.nodes[:place], node, *self.nodes[place + 1 :])
        left = replace(self, nodes=nodes)
        return replace(left, observed=tuple(s for s in self.observed if s in left.streams))

    def without_input(self, port: str) -> PeerCase:
        name = stream_of(port)
        return replace(
            self,
            inputs=tuple(other for other in self.inputs if other != port),
            observed=tuple(stream for stream in self.observed if stream != name),
            steps=tuple(step for step in self.steps if len(step) < 2 or step[1] != name),
        )
