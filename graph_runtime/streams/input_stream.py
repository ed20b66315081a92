"""The receiving end of a stream: a queue, a bound, and a limit."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.packet import EMPTY, Packet, packet_at

if TYPE_CHECKING:
    from graph_runtime.authoring.packet_type import PacketType
    from graph_runtime.engine.node import Node
    from graph_runtime.streams.output_stream import OutputStream


class InputStream:
    """One input of one node, or of a poller (``node`` is None), in one run.

    Attributes:
        queue: packets that have arrived and not been taken yet, by timestamp.
        bound: the smallest timestamp that may still arrive. Never falls.
        closed: the node has closed; what arrives now is dropped.
        is_timed: False under the Barrier handler, which ignores timestamps.
        direct: the node, if this is its only input and it needs nothing but a packet to run, so
            that a packet can go past the queue.
        max_queue_size: at this length the stream is full; -1 is no limit.
        was_full: the fullness that the throttling of the sources last recorded.
        source: the sending end.
        throttles: the ids of the sources and graph inputs that a full queue holds back.
    """

    __slots__ = (
        "bound",
        "checker",
        "closed",
        "direct",
        "header",
        "is_back_edge",
        "is_timed",
        "max_queue_size",
        "name",
        "node",
        "place",
        "queue",
        "source",
        "throttles",
        "was_full",
    )

    def __init__(
        self,
        source: OutputStream,
        node: Node | None,
        place: int,
        checker: PacketType | None,
        is_back_edge: bool,
        max_queue_size: int,
        throttles: tuple[int, ...],
    ) -> None:
        self.name = source.name
        self.node = node
        self.place = place
        self.checker = checker
        self.is_back_edge = is_back_edge
        self.max_queue_size = max_queue_size
        self.throttles = throttles
        self.queue: deque[Packet] = deque()
        self.bound = ts.PRESTREAM
        self.closed = False
        self.was_full = False
        self.is_timed = True
        self.direct: Node | None = None
        self.source = source
        self.header: Packet = NO_PACKET

    @property
    def min_timestamp_or_bound(self) -> int:
        """The head packet's timestamp, or the bound when the queue is empty."""
        return self.queue[0].time if self.queue else self.bound

    @property
    def is_full(self) -> bool:
        """True if the queue has reached its limit."""
        return -1 < self.max_queue_size <= len(self.queue)

    @property
    def is_done(self) -> bool:
        """True if the queue is empty and nothing will come."""
        return self.bound == ts.DONE and not self.queue

    def take_at(self, time: int) -> Packet:
        """Pop the packet at ``time``, or make an empty one at the settled timestamp.

        Afterwards nothing at or before ``time`` may arrive.
        """
        if self.bound <= time:
            self.bound = ts.next_allowed_in_stream(time)
        queue = self.queue
        if queue and queue[0].time == time:
            return queue.popleft()
        # As in MediaPipe (``input_stream_manager.cc`` PopPacketAtTimestamp), earlier packets are
        # dropped: no call asks for them again.
        packet = None
        while queue and queue[0].time <= time:
            packet = queue.popleft()
        if packet is not None and packet.time == time:
            return packet
        return self.settled_packet()

    def settled_packet(self) -> Packet:
        """An empty packet at the last timestamp before anything that can still come."""
        return packet_at(EMPTY, ts.previous_allowed_in_stream(self.min_timestamp_or_bound))

    def erase_earlier_than(self, time: int) -> int:
        """Drop queued packets before ``time``, and return their number."""
        queue = self.queue
        before = len(queue)
        while queue and queue[0].time < time:
            queue.popleft()
        return before - len(queue)

    def min_among_latest(self, count: int) -> int:
        """Return the earliest timestamp of the newest ``count`` packets, UNSET when empty."""
        queue = self.queue
        return queue[-min(count, len(queue))].time if queue else ts.UNSET

    def close(self) -> None:
        """Drop all packets and accept no more, because the node closes."""
        self.closed = True
        self.bound = ts.DONE
        self.queue.clear()
