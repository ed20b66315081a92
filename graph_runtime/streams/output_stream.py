"""The sending end of a stream, and the observers of the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET, OutputStreamShard
from graph_runtime.packet import EMPTY, Packet, packet_at

if TYPE_CHECKING:
    from graph_runtime.authoring.packet_type import PacketType
    from graph_runtime.streams.input_stream import InputStream


class OutputStream:
    """One stream of one run, seen from its producer: a node's output or a graph input.

    Attributes:
        bound: the smallest timestamp that may still be sent. Never falls.
        offset: None, or d: the producer's call at t settles this stream up to t + d.
        mirrors: the receiving ends at nodes and pollers, in the order of the graph.
        observers: the application's callbacks; they come after the mirrors.
        is_locked: headers and offsets are final (the producer is open).
        num_packets: number of packets sent.
    """

    __slots__ = (
        "bound",
        "checker",
        "closed",
        "header",
        "is_locked",
        "mirrors",
        "name",
        "num_packets",
        "observers",
        "offset",
    )

    def __init__(self, name: str, checker: PacketType | None, offset: int | None) -> None:
        self.name = name
        self.checker = checker
        self.offset = offset
        self.bound = ts.PRESTREAM
        self.closed = False
        self.header: Packet = NO_PACKET
        self.is_locked = False
        self.mirrors: list[InputStream] = []
        self.observers: list[StreamObserver] = []
        self.num_packets = 0

    def release_cycles(self) -> None:
        """Drop the references that lead back here. Called after the run."""
        self.mirrors = []
        self.observers = []

    def bound_after_call(self, shard: OutputStreamShard, time: int) -> int:
        """Return the bound that a call at input timestamp ``time`` leads to; UNSET for no change.

        MediaPipe ``output_stream_manager.cc`` ComputeOutputTimestampBound.
        """
        new = shard.updated_bound
        offset = self.offset
        if offset is not None and time != ts.UNSTARTED:
            if time == ts.PRESTREAM:
                settled = ts.MIN
            elif time == ts.MAX:
                settled = (
                    ts.POSTSTREAM
                    if offset >= 0
                    else ts.next_allowed_in_stream(ts.clamp(time + offset))
                )
            elif time == ts.POSTSTREAM:
                settled = ts.ONE_OVER_POSTSTREAM
            else:
                settled = ts.clamp(ts.next_allowed_in_stream(time) + offset)
            if settled > self.bound and settled > new:
                new = settled
        if shard.packets:
            new = max(new, ts.next_allowed_in_stream(shard.packets[-1].time))
        return new


class StreamObserver:
    """A callback on a stream of one run: gets each packet, and on request settled timestamps.

    A settled timestamp is passed as an empty packet, only when no packet waits and it has moved
    (MediaPipe ``graph_output_stream.cc``). The callback runs outside the engine's lock, one call at
    a time over all observers of the graph, in the order of events.
    """

    __slots__ = (
        "bound",
        "callback",
        "failed",
        "last",
        "num_packets",
        "observe_bounds",
        "stream_name",
    )

    def __init__(
        self, stream_name: str, callback: Callable[[str, Packet], object], observe_bounds: bool
    ) -> None:
        self.stream_name = stream_name
        self.callback = callback
        self.observe_bounds = observe_bounds
        self.bound = ts.PRESTREAM
        self.last = ts.UNSTARTED
        self.failed = False
        self.num_packets = 0

    def settle(self, bound: int) -> Packet | None:
        """Take a new bound; returns the empty packet that reports it, or None."""
        self.bound = bound
        if not self.observe_bounds or bound >= ts.DONE:
            return None
        settled = ts.POSTSTREAM if bound == ts.POSTSTREAM else ts.previous_allowed_in_stream(bound)
        if settled <= self.last:
            return None
        self.last = settled
        return packet_at(EMPTY, settled)
