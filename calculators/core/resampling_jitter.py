"""Resampling at random timestamps around the steady ones.

Random timestamps keep a periodic signal from looking constant. The same seed gives the same ones.
Source: MediaPipe ``calculators/core/packet_resampler_calculator.h``; "reflection" is that of
https://arxiv.org/abs/2002.01147.
"""

from __future__ import annotations

from random import Random

from calculators.core.resampling import Limits
from graph_runtime import OutputStreamShard, Packet, Timestamp
from graph_runtime import timestamp as ts


class _Reservoir:
    """One of the packets added since it was emptied, each as likely as the others."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0
        self._sample = Packet.empty()

    def add(self, packet: Packet) -> None:
        self._count += 1
        if self._random.randrange(self._count) == 0:
            self._sample = packet

    def clear(self) -> None:
        self._count = 0

    @property
    def sample(self) -> Packet | None:
        return self._sample if self._count else None


class JitterSampling:
    """The next output is one period away, plus or minus up to ``jitter`` of it.

    A stream that ends before the first output still gives one packet.
    """

    def __init__(self, rate: float, limits: Limits, jitter: float, seed: str) -> None:
        self._limits = limits
        self._jitter = jitter
        self._period = int(1e6 / rate)
        self._max_shift = int(1e6 * jitter / rate)
        self._random = Random(seed)
        self._reservoir = _Reservoir(Random(seed))
        self._samples_reservoir = True
        self._last = Packet.empty()
        #: The timestamp of the next output, and the start of the period it is drawn from.
        self._next: int | None = None
        self._next_min = ts.MIN

    def process(self, output: OutputStreamShard, packet: Packet, time: int) -> None:
        if self._samples_reservoir and (self._next is None or time >= self._next_min):
            self._reservoir.add(packet)
        if self._next is None:
            self._next_min = time
            self._next = time + self._first_shift()
            if self._next == time:
                self._limits.send(output, packet)
                self._next = self._advance(self._next)
        else:
            while self._next <= time:
                is_current_nearer = time - self._next <= self._next - self._last.time
                nearest = packet if is_current_nearer else self._last
                self._limits.send(output, nearest.at(Timestamp.of(self._next)))
                self._next = self._advance(self._next)
                output.set_next_timestamp_bound(Timestamp.of(self._bound(self._next)))
        self._last = packet

    def close(self, output: OutputStreamShard) -> None:
        sample = self._reservoir.sample
        if sample is not None:
            self._limits.send(output, sample)

    def _first_shift(self) -> int:
        return int(self._period * self._random.random())

    def _advance(self, time: int) -> int:
        """The output after the one at ``time``."""
        self._reservoir.clear()
        self._samples_reservoir = False
        factor = (1 - self._jitter) + 2 * self._jitter * self._random.random()
        return time + max(1, int(self._period * factor))

    def _bound(self, following: int) -> int:
        """The bound that can be promised once the next output is known."""
        return following


class ReflectedJitterSampling(JitterSampling):
    """Keeps each output of `JitterSampling` in its own period, by reflection at the period's ends.

    This spreads the outputs evenly.

    The last period gives one of its packets if its output is not reached.
    """

    def _first_shift(self) -> int:
        return self._random.randrange(self._period)

    def _advance(self, time: int) -> int:
        self._reservoir.clear()
        self._next_min += self._period
        return self._shifted(time, self._next_min)

    def _shifted(self, time: int, lowest: int) -> int:
        shift = self._random.randrange(2 * self._max_shift + 1) - self._max_shift
        return reflect(time + self._period + shift, lowest, lowest + self._period)

    def _bound(self, following: int) -> int:
        # close() can still send a packet from anywhere in the period.
        return self._next_min


class ReproducibleJitterSampling(ReflectedJitterSampling):
    """Reflected jitter whose periods count from timestamp 0, not from the first packet.

    A stream that starts in the middle is sampled at the timestamps at which the whole stream would
    be.
    """

    def __init__(self, rate: float, limits: Limits, jitter: float, seed: str) -> None:
        super().__init__(rate, limits, jitter, seed)
        #: True once the output of the current period is sent.
        self._is_sent = False

    def process(self, output: OutputStreamShard, packet: Packet, time: int) -> None:
        if self._next is None:
            following = self._next = self._start(time)
            if following < time:
                self._limits.send(output, packet.at(Timestamp.of(following)))
                self._is_sent = True
        else:
            following = self._next = self._enter_period(self._next, time)
            while not self._is_sent and following <= time:
                is_current_nearer = time - following < following - self._last.time
                nearest = packet if is_current_nearer else self._last
                self._limits.send(output, nearest.at(Timestamp.of(following)))
                self._is_sent = True
                following = self._next = self._enter_period(following, time)
            if output.next_timestamp_bound < following:
                output.set_next_timestamp_bound(Timestamp.of(following))
        self._last = packet

    def close(self, output: OutputStreamShard) -> None:
        if self._next is not None and not self._is_sent:
            self._limits.send(output, self._last.at(Timestamp.of(self._next)))

    def _start(self, time: int) -> int:
        """Repeat the random draws of the periods before the first packet."""
        self._next_min = 0
        following = self._first_shift()
        while time >= self._next_min + self._period:
            self._is_sent = True
            following = self._enter_period(following, time)
        return following

    def _enter_period(self, current: int, time: int) -> int:
        """The next output: that of the next period if this one is over and its output sent."""
        if not self._is_sent or time < self._next_min + self._period:
            return current
        self._next_min += self._period
        self._is_sent = False
        return self._shifted(current, self._next_min)


def reflect(time: int, lowest: int, end: int) -> int:
    """``time`` mirrored into lowest <= t < end, when it is outside by less than the length."""
    if time < lowest:
        return 2 * lowest - time - 1
    return 2 * end - time - 1 if time >= end else time
