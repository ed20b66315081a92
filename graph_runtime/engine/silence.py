"""Explanations for runs that end without an error and send nothing on a stream.

A node may wait for an input that nothing settles. As in MediaPipe that is no error: when no source
is left the run ends, and queued packets are dropped. `Silence` names the nodes that waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from graph_runtime import timestamp as ts
from graph_runtime.engine.states import NodeState

if TYPE_CHECKING:
    from graph_runtime.engine.node import Node
    from graph_runtime.plan.plan import ValidatedGraph
    from graph_runtime.streams.output_stream import OutputStream

#: More sentences would hide the first ones, which are nearest to the stream.
_MAX_REASONS = 6


class _Held(NamedTuple):
    """The first packet that a node held at the end, and the streams and bounds it waited for."""

    stream: str
    time: int
    awaited: list[tuple[str, int]]


class Silence:
    """The remains of a run that explain streams without packets.

    Made at the end of a run, while its queues still exist.
    """

    def __init__(
        self, plan: ValidatedGraph, nodes: list[Node], streams: Mapping[str, OutputStream]
    ) -> None:
        self._plan = plan
        self._packets = {name: stream.num_packets for name, stream in streams.items()}
        self._processed = [
            node.calls - node.was_opened - (node.state is NodeState.CLOSED) for node in nodes
        ]
        self._held = {
            node.plan.node_id: _Held(held[0].name, held[0].queue[0].time, _awaited(node))
            for node in nodes
            if node.state is not NodeState.CLOSED
            and (held := [stream for stream in node.inputs if stream.queue])
        }
        self._unopened = {
            node.plan.node_id: [
                side.name
                for place, side in enumerate(node.plan.side_input_plans)
                if place not in node.side_inputs
            ]
            for node in nodes
            if not node.was_opened
        }

    def reason(self, stream: str, *, shows_times: bool = False) -> str:
        """Name the nodes between the graph's inputs and ``stream``, and what each waits for.

        The text holds names of nodes and streams only, with ``shows_times`` also the timestamps of
        held packets and the bounds of awaited streams. "" if packets were sent on the stream.
        """
        if self._packets.get(stream):
            return ""
        reasons: list[str] = []
        seen: set[int] = set()
        waiting = [stream]
        while waiting and len(reasons) < _MAX_REASONS:
            name = waiting.pop(0)
            producer = self._plan.producers.get(name)
            if producer is None:
                reasons.append(f'no node makes "{name}"')
            elif producer >= len(self._plan.nodes):
                reasons.append(f'no packet was added to the input stream "{name}" of the graph')
            elif producer not in seen:
                seen.add(producer)
                text, upstream = self._reason_of(producer, name, shows_times)
                reasons.append(text)
                waiting += upstream
        return "; ".join(reasons)

    def held(self) -> list[str]:
        """The nodes that held packets when the run ended, and what each waited for, with times."""
        return [self._held_text(node_id, shows_times=True) for node_id in self._held]

    def _held_text(self, node_id: int, shows_times: bool) -> str:
        held = self._held[node_id]
        whom = " and ".join(
            f'"{name}", {self._settler(name, node_id)}'
            + (f" beyond {ts.debug_string(bound)}" if shows_times else "")
            for name, bound in held.awaited
        )
        text = f'node "{self._plan.nodes[node_id].name}" holds "{held.stream}"'
        if shows_times:
            text += f" at {ts.debug_string(held.time)}"
        return text + (f" and waits for {whom}" if whom else "")

    def _reason_of(self, node_id: int, stream: str, shows_times: bool) -> tuple[str, list[str]]:
        """Return why one node sent nothing on ``stream``, and the streams to look at next."""
        plan = self._plan.nodes[node_id]
        node = f'node "{plan.name}"'
        if node_id in self._held:
            makers = self._plan.producers
            awaited = self._held[node_id].awaited
            upstream = [name for name, _ in awaited if makers[name] != node_id]
            return self._held_text(node_id, shows_times), upstream
        if node_id in self._unopened:
            if missing := self._unopened[node_id]:
                names = ", ".join(f'"{name}"' for name in missing)
                return f"{node} did not start: it waits for the side packet {names}", []
            return f"{node} did not start: a node that makes its inputs did not", []
        if count := self._processed[node_id]:
            times = "once" if count == 1 else f"{count} times"
            return f'{node} ran {times} and sent nothing on "{stream}"', []
        empty = [name for name in plan.inputs.names if not self._packets.get(name)]
        forward = [
            name
            for name, each in zip(plan.inputs.names, plan.input_plans, strict=True)
            if not each.is_back_edge and name in empty
        ]
        names = " or ".join(f'"{name}"' for name in forward or empty)
        return f"{node} did not run" + (f": nothing came on {names}" if names else ""), forward

    def _settler(self, stream: str, node_id: int) -> str:
        producer = self._plan.producers[stream]
        if producer == node_id:
            return "which it sends itself"
        if producer >= len(self._plan.nodes):
            return "an input stream of the graph"
        return f'which node "{self._plan.nodes[producer].name}" has not settled'


def _awaited(node: Node) -> list[tuple[str, int]]:
    """The streams whose bounds keep a node from processing its queued packets, and the bounds."""
    plan = node.plan
    count = len(node.inputs)
    groups = plan.handler_class.sync_groups(count, plan.handler_settings) or [list(range(count))]
    awaited: dict[str, int] = {}
    for group in groups:
        members = [node.inputs[place] for place in group]
        heads = [stream.queue[0].time for stream in members if stream.queue]
        if heads:
            awaited |= {
                stream.name: stream.bound
                for stream in members
                if not stream.queue and stream.bound <= min(heads)
            }
    return list(awaited.items())
