"""PacketResamplerCalculator: a stream at a steady rate.

The timestamps are steady, or random ones around these. Random timestamps keep a periodic signal
from looking constant. The same seed gives the same ones.
Source: MediaPipe ``calculators/core/packet_resampler_calculator.h``; "reflection" is that of
https://arxiv.org/abs/2002.01147.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from calculators.core.headers import VideoHeader
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
    OutputStreamShard,
    Packet,
    Timestamp,
    merge_options,
)
from graph_runtime import timestamp as ts
from protos import messages


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
        """Return the timestamp of output 0."""
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
        """Return the output after the one at ``time``."""
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


# PacketResamplerCalculatorOptions.OutputHeader
_PASS_HEADER, _UPDATE_VIDEO_HEADER = 1, 2
_MAX_RATE = 1_000_000.0


class PacketResamplerCalculator(Calculator):
    """Repeats and drops packets so that they come at a steady rate of packet time.

    Without jitter the first packet sets the phase, and output k stands at
    first + round(k / frame_rate); it is the packet nearest to that timestamp (of two equally near,
    the later). Where no packet comes for a while the latest is repeated.

    Inputs:
        DATA, or #0: of any type.
        VIDEO_HEADER (VideoHeader, optional): at PRESTREAM.
    Outputs:
        DATA, or #0: the resampled packets.
        VIDEO_HEADER (VideoHeader, optional): the header with the new frame rate, at PRESTREAM.
    Input side packets:
        OPTIONS (optional): PacketResamplerCalculatorOptions or CalculatorOptions, merged over the
            node's.
        SEED (str): with ``jitter``; the same seed gives the same choice.
    Options (mediapipe.PacketResamplerCalculatorOptions):
        frame_rate: packets per second of packet time; must be given.
        max_frame_rate: an upper limit.
        use_input_frame_rate: take the rate from the input VideoHeader.
        output_header: NONE, PASS_HEADER, or UPDATE_VIDEO_HEADER to pass the stream's own header.
        flush_last_packet: at the end, send the last packet for the period it is nearest to, even
            if that lies after it (default true).
        base_timestamp: sets the phase in place of the first packet.
        start_time, end_time: send only outputs in start_time <= t < end_time.
        round_limits: ... or within half a period of that.
        jitter, jitter_with_reflection, reproducible_sampling: choose at random around the steady
            times, up to ``jitter`` of a period away.

    ::

        node {
          calculator: "PacketResamplerCalculator"
          input_stream: "DATA:frames"
          output_stream: "DATA:steady_frames"
          options { [mediapipe.PacketResamplerCalculatorOptions.ext] { frame_rate: 5 } }
        }

    Source: MediaPipe ``calculators/core/packet_resampler_calculator.h``.
    """

    options = Options(messages.PacketResamplerCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        sides["OPTIONS"].set_any().optional()
        data = inputs["DATA" if inputs.has_tag("DATA") else 0].set_any()
        outputs["DATA" if outputs.has_tag("DATA") else 0].set_same_as(data)
        inputs["VIDEO_HEADER"].set(VideoHeader).optional()
        outputs["VIDEO_HEADER"].set(VideoHeader).optional()
        jitter = contract.options(messages.PacketResamplerCalculatorOptions).jitter
        if jitter:
            contract.require(0 < jitter <= 1, f"jitter is {jitter}; it must be in 0 < jitter <= 1")
            sides["SEED"].set(str)
        else:
            sides["SEED"].set(str).optional()

    def open(self, cc: CalculatorContext) -> None:
        self._settings = self.options
        if cc.input_side_packets.has_tag("OPTIONS"):
            self._settings = merge_options(self.options, cc.input_side_packets["OPTIONS"].value)
        self._input_key: str | int = "DATA" if cc.inputs.has_tag("DATA") else 0
        self._output_key: str | int = "DATA" if cc.outputs.has_tag("DATA") else 0
        self._video_header = VideoHeader()
        self._header_sent = False
        self._set_rate(cc, self._settings.frame_rate)
        self._pass_header(cc)

    def process(self, cc: CalculatorContext) -> None:
        packet = cc.inputs[self._input_key].packet
        if cc.time == ts.PRESTREAM:
            self._take_header(cc)
            if packet.is_empty():
                return
        if not self._header_sent and cc.outputs.has_tag("VIDEO_HEADER"):
            cc.outputs["VIDEO_HEADER"].add(self._video_header, Timestamp.PRESTREAM)
            self._header_sent = True
        if cc.time <= ts.PRESTREAM:
            raise GraphError("a data packet at PRESTREAM cannot be resampled", code=Code.INTERNAL)
        if not packet.is_empty():
            self._sampling.process(cc.outputs[self._output_key], packet, cc.time)

    def close(self, cc: CalculatorContext) -> None:
        if cc.graph_status is None:
            self._sampling.close(cc.outputs[self._output_key])

    def _set_rate(self, cc: CalculatorContext, rate: float) -> None:
        """Sample at this rate from now on."""
        settings = self._settings
        if settings.max_frame_rate > 0:
            rate = min(rate, settings.max_frame_rate)
        if not 0 < rate <= _MAX_RATE:
            bound = "greater than zero" if rate <= 0 else f"smaller than {_MAX_RATE:.0f}"
            raise GraphError(
                f"The output frame rate must be {bound}: it is {rate:g} packets per second. Set "
                "frame_rate in PacketResamplerCalculatorOptions.",
                code=Code.INTERNAL,
            )
        self._rate = rate
        self._video_header = replace(self._video_header, frame_rate=rate)
        limits = Limits(
            settings.start_time if settings.HasField("start_time") else ts.MIN,
            settings.end_time if settings.HasField("end_time") else ts.MAX,
            int(1e6 / rate) // 2 if settings.round_limits else 0,
        )
        self._sampling = self._make_sampling(cc, limits)

    def _make_sampling(self, cc: CalculatorContext, limits: Limits) -> Sampling:
        settings = self._settings
        if not settings.jitter and not settings.reproducible_sampling:
            base_time = settings.base_timestamp if settings.HasField("base_timestamp") else None
            return SteadySampling(self._rate, limits, base_time, settings.flush_last_packet)
        if not cc.input_side_packets.has_tag("SEED"):
            raise GraphError(
                "jitter and reproducible_sampling need the input side packet SEED (a string)",
                code=Code.INVALID_ARGUMENT,
            )
        kind = JitterSampling
        if settings.reproducible_sampling:
            kind = ReproducibleJitterSampling
        elif settings.jitter_with_reflection:
            kind = ReflectedJitterSampling
        return kind(self._rate, limits, settings.jitter, cc.input_side_packets["SEED"].value)

    def _pass_header(self, cc: CalculatorContext) -> None:
        """The stream's own header, as ``output_header`` says."""
        wanted, header = self._settings.output_header, cc.inputs[self._input_key].header
        if header.is_empty() or wanted not in (_PASS_HEADER, _UPDATE_VIDEO_HEADER):
            return
        if wanted == _UPDATE_VIDEO_HEADER:
            if self._settings.max_frame_rate > 0:
                raise GraphError(
                    "Updating VideoHeader is not supported with max_frame_rate.", code=Code.INTERNAL
                )
            self._video_header = replace(header.value, frame_rate=self._rate)
            header = Packet(self._video_header)
        cc.outputs[self._output_key].set_header(header)

    def _take_header(self, cc: CalculatorContext) -> None:
        """The packet of VIDEO_HEADER, if there is one."""
        if not cc.inputs.has_tag("VIDEO_HEADER") or cc.inputs["VIDEO_HEADER"].is_empty():
            return
        header: VideoHeader = cc.inputs["VIDEO_HEADER"].value
        if self._settings.use_input_frame_rate:
            self._set_rate(cc, header.frame_rate)
        self._video_header = replace(header, frame_rate=self._rate)
