"""SwitchMuxCalculator: the streams of one of several channels."""

from __future__ import annotations

from collections import deque

from calculators.core.switch_channels import (
    OPTIONS,
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


class SwitchMuxCalculator(Calculator):
    """Passes the packets and bounds of the channel that is selected at their timestamp.

    Packets of other channels are dropped. A change of channel takes effect when all streams of the
    old channel are settled up to it, so outputs stay in order. SwitchContainer expands to this node
    and a SwitchDemuxCalculator.

    Inputs:
        SELECT (int, optional): the channel, from its timestamp on.
        ENABLE (bool, optional): the same, for channels 0 (false) and 1 (true).
        C0__TAG:i, C1__TAG:i and so on: of one type per output.
    Outputs: TAG:i.
    Input side packets:
        SELECT (int), ENABLE (bool), optional: the first channel.
        C0__TAG:i and so on.
    Output side packets: TAG:i: the side packets of the first channel.
    Options (mediapipe.SwitchContainerOptions):
        select, enable: the first channel; side packets win over them, default 0.

    ::

        node {
          calculator: "SwitchMuxCalculator"
          input_stream: "ENABLE:is_exact"
          input_stream: "C0__MASK:mask_fast"
          input_stream: "C1__MASK:mask_exact"
          output_stream: "MASK:mask"
        }

    Source: MediaPipe ``framework/tool/switch_mux_calculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        declare_selection(contract)
        declare_channels(contract.outputs, contract.inputs)
        declare_channels(contract.output_side_packets, contract.input_side_packets)
        contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._channel = first_channel(cc, self.options)
        self._channels = Timeline(ts.UNSTARTED, self._channel)
        self._tags = channel_tags(cc.inputs.tags())
        #: Packets and bounds that are not sent yet, by input.
        self._queues: dict[tuple[str, int], deque[Packet]] = {
            place: deque() for place in cc.inputs.places if place[0] not in ("SELECT", "ENABLE")
        }
        for tag in channel_tags(cc.input_side_packets.tags()):
            for index in range(cc.output_side_packets.num_entries(tag)):
                packet = cc.input_side_packets[channel_tag(tag, self._channel), index]
                cc.output_side_packets[tag, index].set(packet)

    def process(self, cc: CalculatorContext) -> None:
        settled = selection_settled(cc)
        channel = selected_channel(cc, self._channel)
        if settled == cc.time and channel != self._channel:
            self._channel = channel
            self._channels.set(settled, channel)
        for place, queue in self._queues.items():
            packet = cc.inputs[place].packet
            if packet.time == cc.time:
                queue.append(packet)
        self._send(cc, settled)

    def _send(self, cc: CalculatorContext, settled: int) -> None:
        """Send the queued packets, one selected channel after the other."""
        while True:
            start, channel = self._channels.first
            change = self._channels.second_time
            end = ts.next_allowed_in_stream(settled) if change is None else change
            channel_settled = self._send_channel(cc, channel, start, end)
            if change is None or ts.next_allowed_in_stream(channel_settled) < end:
                return
            self._channels.drop_first()
            for queue in self._queues.values():
                while queue and queue[0].time < end:
                    queue.popleft()

    def _send_channel(self, cc: CalculatorContext, channel: int, start: int, end: int) -> int:
        """Send a channel's packets in start <= t < end; return the bound to which it is settled."""
        channel_settled = ts.DONE
        for tag in self._tags:
            input_tag = channel_tag(tag, channel)
            for index in range(cc.inputs.num_entries(input_tag)):
                queue = self._queues[input_tag, index]
                while queue and queue[0].time < end:
                    packet = queue.popleft()
                    if packet.time >= start:
                        cc.outputs[tag, index].add_packet(packet)
                channel_settled = min(channel_settled, cc.inputs[input_tag, index].packet.time)
        return channel_settled
