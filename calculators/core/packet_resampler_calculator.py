"""PacketResamplerCalculator: a stream at a steady rate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calculators.core.resampling import Limits, Sampling, SteadySampling
from calculators.core.resampling_jitter import (
    JitterSampling,
    ReflectedJitterSampling,
    ReproducibleJitterSampling,
)
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
            times, up to ``jitter`` of a period away; see `calculators.core.resampling_jitter`.

    ::

        node {
          calculator: "PacketResamplerCalculator"
          input_stream: "DATA:frames"
          output_stream: "DATA:steady_frames"
          options { [mediapipe.PacketResamplerCalculatorOptions.ext] { frame_rate: 5 } }
        }

    Source: MediaPipe ``calculators/core/packet_resampler_calculator.h``.
    """

    options = Options("mediapipe.PacketResamplerCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        sides["OPTIONS"].set_any().optional()
        data = inputs["DATA" if inputs.has_tag("DATA") else 0].set_any()
        outputs["DATA" if outputs.has_tag("DATA") else 0].set_same_as(data)
        inputs["VIDEO_HEADER"].set(VideoHeader).optional()
        outputs["VIDEO_HEADER"].set(VideoHeader).optional()
        jitter = contract.options("mediapipe.PacketResamplerCalculatorOptions").jitter
        if jitter:
            contract.require(0 < jitter <= 1, f"jitter is {jitter}; it must be in 0 < jitter <= 1")
            sides["SEED"].set(str)
        else:
            sides["SEED"].set(str).optional()

    def open(self, cc: CalculatorContext) -> None:
        self._settings: Any = self.options
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
