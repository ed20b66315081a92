"""A frozen snapshot of a graph, for a person who asks why it does not go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.engine.states import NodeState, RunState
from graph_runtime.timestamp import Timestamp

if TYPE_CHECKING:
    from graph_runtime.authoring.context import Counter
    from graph_runtime.engine.node import Node
    from graph_runtime.engine.run import Run
    from graph_runtime.plan.plan import ValidatedGraph


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """One input stream of a node.

    ``bound``: the smallest timestamp that may still arrive. ``max_queue_size``: -1 is no limit.
    """

    stream: str
    queue_size: int
    max_queue_size: int
    bound: Timestamp
    is_full: bool
    is_done: bool


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """One stream at its producer. ``bound``: the smallest timestamp that may still be sent."""

    name: str
    packets: int
    bound: Timestamp
    is_closed: bool


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """One node.

    ``calls`` counts open, process and close; ``time`` is their total in seconds; ``waits_for`` says
    in words why the node does not run, and is empty if it does or could.
    """

    name: str
    calculator: str
    state: NodeState
    in_flight: int
    calls: int
    time: float
    inputs: tuple[InputStatistics, ...]
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """The graph. ``throttled``: the sources and graph inputs that full queues hold back."""

    state: RunState
    nodes: tuple[NodeStatistics, ...]
    streams: Mapping[str, StreamStatistics]
    counters: Mapping[str, int]
    throttled: tuple[str, ...]
    errors: tuple[str, ...]

    def node(self, name: str) -> NodeStatistics:
        """A node by its canonical name.

        Raises:
            KeyError: no such node.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


def take_statistics(
    plan: ValidatedGraph, run: Run | None, counters: Mapping[str, Counter]
) -> GraphStatistics:
    """Take the snapshot. Lock held. Without a run it has only the counters of the last one."""
    counted = {name: counter.value for name, counter in counters.items()}
    if run is None:
        return GraphStatistics(RunState.NOT_STARTED, (), {}, counted, (), ())
    scheduler = run.scheduler
    is_throttled = scheduler.throttling.is_throttled
    names = [node.name for node in plan.nodes] + [each.name for each in plan.graph_inputs]
    return GraphStatistics(
        scheduler.state,
        tuple(_node(node, is_throttled(node.plan.node_id)) for node in scheduler.nodes),
        {
            stream.name: StreamStatistics(
                stream.name, stream.num_packets, Timestamp.of(stream.bound), stream.closed
            )
            for stream in run.streams.values()
        },
        counted,
        tuple(name for source_id, name in enumerate(names) if is_throttled(source_id)),
        tuple(str(error) for error in scheduler.errors),
    )


def node_statistics(run: Run, node_id: int) -> NodeStatistics:
    """Take the snapshot of one node. Lock held."""
    is_throttled = run.scheduler.throttling.is_throttled(node_id)
    return _node(run.scheduler.nodes[node_id], is_throttled)


def _node(node: Node, is_throttled: bool) -> NodeStatistics:
    return NodeStatistics(
        node.plan.name,
        node.plan.calculator_type,
        node.state,
        node.in_flight,
        node.calls,
        node.time_ns / 1e9,
        tuple(
            InputStatistics(
                stream.name,
                len(stream.queue),
                stream.max_queue_size,
                Timestamp.of(stream.bound),
                stream.is_full,
                stream.is_done,
            )
            for stream in node.inputs
        ),
        tuple(_waits_for(node, is_throttled)),
    )


def _waits_for(node: Node, is_throttled: bool) -> list[str]:
    """Reasons in words why the node does not run now."""
    if node.state is NodeState.PREPARED:
        missing = [
            f'side packet "{side.name}"'
            for place, side in enumerate(node.plan.side_input_plans)
            if place not in node.side_inputs and side.producer is not None
        ]
        if node.missing > len(missing):
            missing.append("the nodes that produce its inputs to open")
        return missing
    if is_throttled:
        return ["room in a full queue downstream"]
    if node.state is not NodeState.OPENED or node.in_flight or node.is_source:
        return [] if node.state is not NodeState.OPENED or node.in_flight else ["its source layer"]
    waiting = [stream for stream in node.inputs if not stream.queue and stream.bound < ts.DONE]
    held = [stream for stream in node.inputs if stream.queue]
    if not held:
        return [f'a packet on "{stream.name}"' for stream in waiting]
    head = min(stream.queue[0].time for stream in held)
    return [
        f'a packet or bound on "{stream.name}" (settled below '
        f"{ts.debug_string(stream.bound)}, needed: above {ts.debug_string(head)})"
        for stream in waiting
        if stream.bound <= head
    ]
