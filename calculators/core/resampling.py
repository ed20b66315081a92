"""The choice of packets and timestamps in PacketResamplerCalculator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from graph_runtime import OutputStreamShard, Packet, Timestamp
from graph_runtime import timestamp as ts


@dataclass(frozen=True)
class Limits:
    """Limits of the output timestamps: start - margin <= t < end + margin."""

    start: int
    end: int
    margin: int

    def send(self, output: OutputStreamShard, packet: Packet) -> None:
        """Send a packet if its timestamp is within the limits."""
        start, end = ts.clamp(self.start - self.margin), ts.clamp(self.end + self.margin)
        if start <= packet.time < end:
            output.add_packet(packet)


class Sampling(Protocol):
    """A way of choosing packets; lives for one run of the node."""

    def process(self, output: OutputStreamShard, packet: Packet, time: int) -> None:
        """Take the input packet at ``time`` and send the outputs that are due."""

    def close(self, output: OutputStreamShard) -> None:
        """Send the remaining outputs at the end of the input."""


class SteadySampling:
    """Outputs at first + round(k * period), each the packet nearest to its timestamp."""

    def __init__(
        self, rate: float, limits: Limits, base_time: int | None, flush_last_packet: bool
    ) -> None:
        self._rate = rate
        self._limits = limits
        self._base_time = base_time
        self._flush_last_packet = flush_last_packet
        self._first: int | None = None
        #: The index of the next output.
        self._count = 0
        self._last = Packet.empty()

    def process(self, output: OutputStreamShard, packet: Packet, time: int) -> None:
        if self._first is None:
            self._first = self._phase(time)
        index = self._index_of(time)
        if index >= self._count:
            while index > self._count:
                self._limits.send(output, self._last.at(self._time_of(self._count)))
                self._count += 1
            target = self._time_of(self._count)
            if time >= target:
                is_current_nearer = (
                    self._last.time == ts.UNSET or time - target <= target - self._last.time
                )
                nearest = packet if is_current_nearer else self._last
                self._limits.send(output, nearest.at(target))
                self._count += 1
            output.set_next_timestamp_bound(self._time_of(self._count))
        self._last = packet

    def close(self, output: OutputStreamShard) -> None:
        if self._first is None or not self._flush_last_packet:
            return
        if self._index_of(self._last.time) == self._count:
            self._limits.send(output, self._last.at(self._time_of(self._count)))

    def _phase(self, time: int) -> int:
        """The timestamp of output 0."""
        if self._base_time is None:
            return time
        index = round_half_away((time - self._base_time) / 1e6 * self._rate)
        return ts.clamp(self._base_time + round_half_away(index / self._rate * 1e6))

    def _time_of(self, index: int) -> Timestamp:
        assert self._first is not None
        return Timestamp.of(ts.clamp(self._first + round_half_away(index / self._rate * 1e6)))

    def _index_of(self, time: int) -> int:
        assert self._first is not None
        return round_half_away((time - self._first) / 1e6 * self._rate)


def round_half_away(number: float) -> int:
    """The nearest integer, halves away from zero (Python's ``round`` goes to the even one)."""
    return int(number - 0.5) if number < 0 else int(number + 0.5)
