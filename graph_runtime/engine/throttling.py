"""Throttling: full queues hold back the sources and graph inputs above them.

Source: MediaPipe ``calculator_graph.cc`` UpdateThrottledNodes, UnthrottleSources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_runtime.errors import UnavailableError
from graph_runtime.streams.input_stream import InputStream

if TYPE_CHECKING:
    from graph_runtime.engine.error_log import ErrorLog
    from graph_runtime.engine.node import Node
    from graph_runtime.plan.plan import ValidatedGraph


class Throttling:
    """Record of the sources and graph inputs that are held back, and of the queues that do it.

    Attributes:
        full_streams: per source (by node id) and graph input (after the nodes), the full queues
            that hold it back.
        throttled_inputs: number of graph inputs that are held back.
        has_released_input: a graph input was released; the driver then wakes its waiters.
    """

    def __init__(self, plan: ValidatedGraph, nodes: list[Node], log: ErrorLog) -> None:
        self.full_streams: list[dict[InputStream, None]] = []
        for _ in range(len(nodes) + len(plan.graph_inputs)):
            self.full_streams.append({})
        self.throttled_inputs = 0
        self.has_released_input = False
        self._nodes = nodes
        self._plan = plan
        self._log = log

    def is_throttled(self, source_id: int) -> bool:
        """Return True if a full queue holds this source or graph input back."""
        return bool(self.full_streams[source_id]) and not self._plan.is_unthrottled

    def update(self, stream: InputStream) -> list[Node]:
        """Note that a queue may have become full or have room again.

        Returns the sources that this releases.
        """
        is_full = stream.is_full
        released: list[Node] = []
        if is_full == stream.was_full:
            return released
        stream.was_full = is_full
        for source_id in stream.throttles:
            holders = self.full_streams[source_id]
            was_throttled = bool(holders)
            if is_full:
                holders[stream] = None
            else:
                holders.pop(stream, None)
            if source_id >= len(self._nodes):
                self.throttled_inputs += bool(holders) - was_throttled
                self.has_released_input = self.has_released_input or not holders
            elif not holders:
                released.append(self._nodes[source_id])
        return released

    def resolve_deadlock(self) -> list[InputStream]:
        """Let each full queue grow by one packet. Called when everything is idle.

        Returns the queues that hold something back, with their new limits; the caller updates
        them. With ``report_deadlock``, records an error for each instead and keeps its limit.
        """
        full = {
            stream: None
            for holders in self.full_streams
            for stream in holders
            # A poller's queue empties when the application reads it.
            if stream.node is not None
        }
        for stream in full:
            if self._plan.report_deadlock:
                assert stream.node is not None
                self._log.record(
                    UnavailableError(
                        "Detected a deadlock due to input throttling for input stream: "
                        f'"{stream.name}" of a node "{stream.node.plan.debug_name}". All '
                        "calculators are idle while packet sources remain active and throttled.  "
                        'Consider adjusting "max_queue_size" or "report_deadlock".'
                    )
                )
            else:
                stream.max_queue_size = len(stream.queue) + 1
        return list(full)
