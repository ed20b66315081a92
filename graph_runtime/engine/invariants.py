"""The engine's invariants, as one function. ``docs/invariants.md`` numbers and explains them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.engine.flow import completed
from graph_runtime.engine.states import NodeState, RunState

if TYPE_CHECKING:
    from graph_runtime.engine.node import Node
    from graph_runtime.engine.scheduler import Scheduler


class InvariantError(AssertionError):
    """An invariant of the engine does not hold: a bug in graphrt."""


def check_invariants(scheduler: Scheduler) -> None:
    """Raise InvariantError if an invariant is broken. Called under the lock, between two steps."""
    for stream in scheduler.graph_inputs:
        _require(1, stream.bound >= ts.PRESTREAM, stream.name)
    for node in scheduler.nodes:
        _check_streams(scheduler, node)
        _check_calls(scheduler, node)
    _check_throttling(scheduler)
    if scheduler.state is RunState.TERMINATED:
        _require(9, not any(map(len, scheduler.queues)), "calls are queued after the end")


def _require(number: int, holds: bool, what: object) -> None:
    if not holds:
        raise InvariantError(f"I{number} is broken: {what}")


def _check_streams(scheduler: Scheduler, node: Node) -> None:
    for stream in node.inputs:
        times = [packet.time for packet in stream.queue]
        if stream.is_timed:
            increasing = all(a < b for a, b in pairwise(times))
            _require(1, increasing, f"{stream.name}: {times}")
            _require(2, not times or times[-1] < stream.bound, f"{stream.name} bound")
        _require(3, not stream.closed or not times, f"{stream.name} is closed and holds packets")
        _require(
            3,
            stream.closed == (node.state in (NodeState.CLOSING, NodeState.CLOSED))
            or node.state is NodeState.CLOSED,
            f"{stream.name} closed={stream.closed}, node {node.state}",
        )
        _require(4, not (stream.direct and node.is_idle and times), f"{stream.name} overtaken")
    for output in node.outputs:
        _require(5, not output.closed or output.bound == ts.DONE, f"{output.name} closed early")
        for mirror in output.mirrors:
            # A receiver that refused a packet, which is an error of the graph, keeps its old bound.
            if not mirror.closed and mirror.is_timed and not scheduler.errors:
                # A receiver may be ahead: taking a packet moves its bound past the packet.
                _require(2, mirror.bound >= output.bound, f"{output.name} -> {mirror.bound}")


def _check_calls(scheduler: Scheduler, node: Node) -> None:
    limit = max(1, node.plan.max_in_flight)
    _require(6, 0 <= node.in_flight <= limit, f"{node.plan.name}: {node.in_flight} in flight")
    running = sum(context.call is not completed for context in node.active)
    if not scheduler.errors:  # After an error, prepared calls are not queued any more.
        _require(6, running <= node.in_flight, f"{node.plan.name}: {running} contexts")
    if node.is_fast:
        others = [stream for stream in node.inputs if stream is not node.sole_input]
        _require(11, all(stream.is_done for stream in others), f"{node.plan.name} skips an input")
    _require(7, not node.is_scheduling and not node.is_pending, f"{node.plan.name} is asking")
    if node.is_idle:
        _require(4, node.in_flight == 0 and node.state is NodeState.OPENED, node.plan.name)
        _require(8, not scheduler.errors, f"{node.plan.name} would start after an error")


def _check_throttling(scheduler: Scheduler) -> None:
    first_input = len(scheduler.nodes)
    for node in scheduler.nodes:
        for stream in node.inputs:
            _require(10, stream.was_full == stream.is_full, f"{stream.name} was full, or is")
            for source_id in stream.throttles:
                holds = stream in scheduler.throttling.full_streams[source_id]
                _require(10, holds == stream.was_full, f"{stream.name} and source {source_id}")
    for source_id, holders in enumerate(scheduler.throttling.full_streams):
        for stream in holders:
            _require(10, stream.was_full, f"{stream.name} holds {source_id} back and is not full")
    throttled = sum(bool(holders) for holders in scheduler.throttling.full_streams[first_input:])
    _require(10, throttled == scheduler.throttling.throttled_inputs, "count of throttled inputs")
