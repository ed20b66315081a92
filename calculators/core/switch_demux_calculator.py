"""SwitchDemuxCalculator: streams into one of several channels."""

from __future__ import annotations

from collections import deque

from calculators.core.switch_channels import (
    OPTIONS,
    channel_count,
    channel_tag,
    channel_tags,
    declare_channels,
    declare_selection,
    first_channel,
    selected_channel,
    selection_settled,
)
from calculators.core.timeline import Timeline
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options, Packet
from graph_runtime import timestamp as ts


class SwitchDemuxCalculator(Calculator):
    """Sends the packets of its inputs to the channel that is selected at their timestamp.

    A packet waits until the selection is known for its timestamp. One that comes after a later
    selection took effect is dropped. Part of what SwitchContainer becomes.

    Inputs:
        SELECT (int, optional): the channel, from its timestamp on.
        ENABLE (bool, optional): the same, for channels 0 (false) and 1 (true).
        any other tags: of any type.
    Outputs: for input TAG:i, C0__TAG:i, C1__TAG:i and so on; a channel may leave some out.
    Input side packets:
        SELECT (int), ENABLE (bool), optional: the first channel.
        any other tags.
    Output side packets: C0__TAG:i and so on; all channels get the side packets.
    Options (mediapipe.SwitchContainerOptions):
        select, enable: the first channel; side packets win over them, default 0.
        synchronize_io: wait for all inputs at each timestamp. By default each input is taken as it
            comes (ImmediateInputStreamHandler).

    ::

        node {
          calculator: "SwitchDemuxCalculator"
          input_stream: "ENABLE:is_exact"
          input_stream: "FRAME:frame"
          output_stream: "C0__FRAME:frame_fast"
          output_stream: "C1__FRAME:frame_exact"
        }

    Source: MediaPipe ``framework/tool/switch_demux_calculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        declare_selection(contract)
        declare_channels(contract.inputs, contract.outputs)
        declare_channels(contract.input_side_packets, contract.output_side_packets)
        if not contract.options(OPTIONS).synchronize_io:
            contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._channel = first_channel(cc, self.options)
        self._channels = Timeline(ts.UNSTARTED, self._channel)
        #: Packets and bounds that are not sent yet, by input.
        self._queues: dict[tuple[str, int], deque[Packet]] = {
            (tag, index): deque()
            for tag in channel_tags(cc.outputs.tags())
            for index in range(cc.inputs.num_entries(tag))
        }
        for tag in channel_tags(cc.output_side_packets.tags()):
            for index in range(cc.input_side_packets.num_entries(tag)):
                for channel in range(channel_count(cc.output_side_packets.tags())):
                    side = cc.output_side_packets.get((channel_tag(tag, channel), index))
                    if side is not None:
                        side.set(cc.input_side_packets[tag, index])
        for tag, index in self._queues:
            header = cc.inputs[tag, index].header
            for channel in range(channel_count(cc.outputs.tags())):
                output = cc.outputs.get((channel_tag(tag, channel), index))
                if output is not None and not header.is_empty():
                    output.set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        for place, queue in self._queues.items():
            packet = cc.inputs[place].packet
            if packet.time == cc.time:
                queue.append(packet)
        settled = selection_settled(cc)
        channel = selected_channel(cc, self._channel)
        if settled == cc.time and channel != self._channel:
            self._channel = channel
            self._channels.set(settled, channel)
        self._send(cc, settled)

    def _send(self, cc: CalculatorContext, settled: int) -> None:
        """Send the queued packets, as far as the selection is known."""
        for (tag, index), queue in self._queues.items():
            while queue and queue[0].time <= settled:
                packet = queue.popleft()
                channel = self._channels.at(packet.time)
                if channel is None:
                    continue
                output = cc.outputs.get((channel_tag(tag, channel), index))
                if output is not None:
                    output.add_packet(packet)
        self._channels.forget_before(ts.ONE_OVER_POSTSTREAM)
