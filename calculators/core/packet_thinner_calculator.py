"""PacketThinnerCalculator: fewer packets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from calculators.core.video_header import VideoHeader
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
    Packet,
    Timestamp,
    merge_options,
)
from graph_runtime import timestamp as ts

# PacketThinnerCalculatorOptions.ThinnerType
_ASYNC = 1


class PacketThinnerCalculator(Calculator):
    """Drops packets so that at most one is left per period.

    ASYNC: after a packet is sent, those of the following period are dropped. SYNC: periods are
    centred at start_time + i * period; of each, the packet nearest to the centre is sent (of two
    equally near, the later).

    Inputs: #0, of any type.
    Outputs: #0: the packets that are left.
    Input side packets:
        PERIOD (int, optional): in place of the option.
        OPTIONS (optional): PacketThinnerCalculatorOptions or CalculatorOptions, merged over the
            node's.
    Options (mediapipe.PacketThinnerCalculatorOptions):
        thinner_type: ASYNC (default) or SYNC.
        period: microseconds, at least 1.
        start_time, end_time: only packets in start_time <= t < end_time. SYNC counts from 0 when
            start_time is not given.
        sync_output_timestamps: SYNC sends packets at the centres (default true), or at their own
            timestamps.
        update_frame_rate: pass the stream's VideoHeader with its new frame rate.

    ::

        node {
          calculator: "PacketThinnerCalculator"
          input_stream: "frames"
          output_stream: "some_frames"
          options {
            [mediapipe.PacketThinnerCalculatorOptions.ext] { thinner_type: SYNC period: 1000000 }
          }
        }

    Source: MediaPipe ``calculators/core/packet_thinner_calculator.cc``.
    """

    options = Options("mediapipe.PacketThinnerCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.outputs[0].set_same_as(contract.inputs[0].set_any())
        contract.input_side_packets["OPTIONS"].set_any().optional()
        contract.input_side_packets["PERIOD"].set(int).optional()

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        options: Any = self.options
        if sides.has_tag("OPTIONS"):
            options = merge_options(options, sides["OPTIONS"].value)
        self._is_async = options.thinner_type == _ASYNC
        self._period: int = sides["PERIOD"].value if sides.has_tag("PERIOD") else options.period
        _require(
            self._period > 0,
            f"Specified period must be positive: it is {self._period} microseconds",
        )
        self._start = ts.MIN if self._is_async else 0
        if options.HasField("start_time"):
            self._start = int(Timestamp(options.start_time))
        self._end = int(Timestamp(options.end_time)) if options.HasField("end_time") else ts.MAX
        _require(
            self._start < self._end,
            f"start_time must be earlier than end_time: they are {self._start} and {self._end}",
        )
        self._uses_centres = options.sync_output_timestamps
        #: ASYNC: packets before this are dropped.
        self._next = self._start
        #: SYNC: the best packet of the current period.
        self._best: Packet | None = None
        output = cc.outputs[0]
        if self._is_async:
            output.set_offset(0)
        output.set_next_timestamp_bound(Timestamp.of(self._start))
        header = cc.inputs[0].header
        if not header.is_empty():
            output.set_header(
                Packet(self._slower(header.value, options.period))
                if options.update_frame_rate
                else header
            )

    def process(self, cc: CalculatorContext) -> None:
        output = cc.outputs[0]
        if cc.time >= self._end:
            if not output.is_closed:
                self._send_best(cc)
                output.close()
        elif cc.time >= self._start and not cc.inputs[0].is_empty():
            if self._is_async:
                self._thin_async(cc)
            else:
                self._thin_sync(cc)

    def close(self, cc: CalculatorContext) -> None:
        self._send_best(cc)

    def _thin_async(self, cc: CalculatorContext) -> None:
        if cc.time >= self._next:
            cc.outputs[0].add_packet(cc.inputs[0].packet)
            self._next = ts.clamp(cc.time + self._period)
            cc.outputs[0].set_next_timestamp_bound(Timestamp.of(self._next))

    def _thin_sync(self, cc: CalculatorContext) -> None:
        packet, output = cc.inputs[0].packet, cc.outputs[0]
        best = self._best
        centre = self._centre(packet.time)
        if best is not None and self._centre(best.time) == centre:
            if abs(packet.time - centre) <= abs(best.time - centre):
                self._best = packet
            return
        self._send_best(cc)
        output.set_next_timestamp_bound(centre if self._uses_centres else packet.time)
        self._best = packet

    def _send_best(self, cc: CalculatorContext) -> None:
        best, self._best = self._best, None
        if best is not None:
            time = self._centre(best.time) if self._uses_centres else best.time
            cc.outputs[0].add_packet(best.at(time))

    def _centre(self, time: int) -> int:
        """The centre of the period that ``time`` is in."""
        periods = (time - self._start + self._period // 2) // self._period
        return self._start + periods * self._period

    def _slower(self, header: VideoHeader, period: int) -> VideoHeader:
        """The header with the reduced frame rate."""
        if self._is_async:
            rate = header.frame_rate / math.ceil(header.frame_rate * period / 1e6)
        else:
            rate = min(header.frame_rate, 1e6 / period)
        return replace(header, frame_rate=rate)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GraphError(message, code=Code.INVALID_ARGUMENT)
