"""Flow limiters: packets are dropped so that a part of the graph is never flooded."""

from __future__ import annotations

from collections import deque

from calculators.core.headers import copy_headers
from calculators.core.timeline import ValueOverTime
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


class FlowLimiterCalculator(Calculator):
    """Limits the number of timestamps in flight, by dropping packets.

    A packet that is sent is in flight until FINISHED reports its timestamp. While the limit is
    reached, packets wait in a short queue that keeps the newest. ``max_in_flight: 1`` with
    ``max_in_queue: 1`` keeps the graph busy at low latency.

    Inputs:
        #0: the main stream, of any type.
        #1 ...: auxiliary streams; their packets follow the decision for the latest main packet at
            or before their timestamp.
        FINISHED: usually a back edge. A packet *or a timestamp bound* at t ends the flight of
            everything up to t.
        OPTIONS (optional): FlowLimiterCalculatorOptions, merged over those in force.
    Outputs:
        #i: one per data stream.
        ALLOW (bool, optional): for each main packet, at its timestamp: sent, or dropped.
    Input side packets:
        MAX_IN_FLIGHT (int, optional): in place of the option.
        OPTIONS (optional): FlowLimiterCalculatorOptions or CalculatorOptions, merged over the
            node's.
    Options (mediapipe.FlowLimiterCalculatorOptions):
        max_in_flight: the limit, default 1; negative is no limit.
        max_in_queue: the number of packets that may wait, default 0; negative is no limit.
        in_flight_timeout: microseconds of packet time after which a flight counts as lost when a
            newer main packet comes; 0 is never.

    ::

        node {
          calculator: "FlowLimiterCalculator"
          input_stream: "raw_frames"
          input_stream: "FINISHED:finished"
          input_stream_info { tag_index: "FINISHED" back_edge: true }
          output_stream: "sampled_frames"
        }

    Source: MediaPipe ``calculators/core/flow_limiter_calculator.cc``.
    """

    options = Options(messages.FlowLimiterCalculatorOptions)
    settles_outputs = True

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        contract.require(
            inputs.num_entries("") >= 1, "there must be at least one data stream (without a tag)"
        )
        for index in range(inputs.num_entries("")):
            outputs[index].set_same_as(inputs[index].set_any())
        inputs["FINISHED"].set_any()
        inputs["OPTIONS"].set_any().optional()
        outputs["ALLOW"].set(bool).optional()
        sides["MAX_IN_FLIGHT"].set(int).optional()
        sides["OPTIONS"].set_any().optional()
        contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        settings = type(self.options)()
        settings.CopyFrom(self.options)
        sides = cc.input_side_packets
        if sides.has_tag("OPTIONS"):
            settings = merge_options(settings, sides["OPTIONS"].value)
        if sides.has_tag("MAX_IN_FLIGHT"):
            settings.max_in_flight = sides["MAX_IN_FLIGHT"].value
        self._settings = settings
        self._queues: list[deque[Packet]] = [deque() for _ in range(cc.inputs.num_entries(""))]
        #: Timestamps of the packets in flight, in rising order.
        self._in_flight: deque[int] = deque()
        #: The decision from each main timestamp on, for the auxiliary streams.
        self._allowed = ValueOverTime(ts.UNSET, True)
        copy_headers(cc)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("OPTIONS") and not cc.inputs["OPTIONS"].is_empty():
            self._settings = merge_options(self._settings, cc.inputs["OPTIONS"].value)
        self._land(cc)
        for index, queue in enumerate(self._queues):
            packet = cc.inputs[index].packet
            if not packet.is_empty():
                queue.append(packet)
        self._release(cc)
        self._release_auxiliary(cc)
        self._allowed.forget_before(
            min(_bound(queue, cc.inputs[index].packet) for index, queue in enumerate(self._queues))
        )

    def _land(self, cc: CalculatorContext) -> None:
        """Remove finished and lost packets from the packets in flight."""
        in_flight = self._in_flight
        finished = cc.inputs["FINISHED"].packet.time
        # A bound on FINISHED finishes packets too: the worker may have dropped them.
        if finished == cc.time:
            while in_flight and in_flight[0] <= finished:
                in_flight.popleft()
        # By the timestamps of packets, not by a clock, as in MediaPipe.
        timeout = self._settings.in_flight_timeout
        latest = cc.inputs[0].packet.time
        if timeout > 0 and latest == cc.time and latest < ts.MAX:
            while in_flight and latest - in_flight[0] > timeout:
                in_flight.popleft()

    def _release(self, cc: CalculatorContext) -> None:
        """Send the packets that the limit allows, then drop the oldest if the queue is too long."""
        queue, output = self._queues[0], cc.outputs[0]
        limit = self._settings.max_in_flight
        while queue and (limit < 0 or len(self._in_flight) < limit):
            packet = queue.popleft()
            output.add_packet(packet)
            self._decide(cc, packet.time, True)
            self._in_flight.append(packet.time)
        limit = self._settings.max_in_queue
        while limit >= 0 and len(queue) > limit:
            cc.get_counter("dropped").increment()
            self._decide(cc, queue.popleft().time, False)
        bound = _bound(queue, cc.inputs[0].packet)
        _set_bound(output, bound)
        if not queue and cc.outputs.has_tag("ALLOW"):
            _set_bound(cc.outputs["ALLOW"], bound)

    def _decide(self, cc: CalculatorContext, time: int, allow: bool) -> None:
        if cc.outputs.has_tag("ALLOW"):
            cc.outputs["ALLOW"].add(allow, Timestamp.of(time))
        self._allowed.set(time, allow)

    def _release_auxiliary(self, cc: CalculatorContext) -> None:
        """Send or drop the auxiliary packets whose main timestamps are decided."""
        settled = cc.outputs[0].next_timestamp_bound
        for index in range(1, len(self._queues)):
            queue, output = self._queues[index], cc.outputs[index]
            while queue and queue[0].time < settled:
                packet = queue.popleft()
                if self._allowed.at(packet.time):
                    output.add_packet(packet)
            _set_bound(output, _bound(queue, cc.inputs[index].packet))


def _bound(queue: deque[Packet], packet: Packet) -> int:
    """Return the lowest timestamp of a stream that is not decided yet."""
    return queue[0].time if queue else ts.next_allowed_in_stream(packet.time)


def _set_bound(output: OutputStreamShard, bound: int) -> None:
    if bound > ts.MAX:
        output.close()
    else:
        output.set_next_timestamp_bound(Timestamp.of(bound))


class RealTimeFlowLimiterCalculator(Calculator):
    """Limits the number of timestamps in flight. FlowLimiterCalculator replaces it.

    It only counts: every timestamp sent must come back as one packet on FINISHED. Use it only in
    graphs that have it already.

    Inputs:
        #i: data streams of any type; all packets of a timestamp are sent, or all dropped.
        FINISHED: a back edge; one packet per timestamp sent.
    Outputs:
        #i: one per data stream.
        ALLOW (bool, optional): whether packets can pass, each time that changes, at timestamps
            1, 2, 3 ...
    Input side packets: MAX_IN_FLIGHT (int, optional): the limit, default 1.
    Options: none.

    ::

        node {
          calculator: "RealTimeFlowLimiterCalculator"
          input_stream: "raw_frames"
          input_stream: "FINISHED:finished"
          input_stream_info { tag_index: "FINISHED" back_edge: true }
          output_stream: "gated_frames"
        }

    Source: MediaPipe ``calculators/core/real_time_flow_limiter_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("")
        contract.require(count >= 1, "there must be at least one data stream (without a tag)")
        contract.require(
            outputs.num_entries("") == count,
            "Output streams must correspond input streams except for the finish indicator input "
            f"stream: there are {count} inputs and {outputs.num_entries('')} outputs.",
        )
        for index in range(count):
            outputs[index].set_same_as(inputs[index].set_any())
        inputs["FINISHED"].set_any()
        contract.input_side_packets["MAX_IN_FLIGHT"].set(int).optional()
        outputs["ALLOW"].set(bool).optional()
        contract.input_stream_handler = "ImmediateInputStreamHandler"

    def open(self, cc: CalculatorContext) -> None:
        self._limit = 1
        if cc.input_side_packets.has_tag("MAX_IN_FLIGHT"):
            self._limit = cc.input_side_packets["MAX_IN_FLIGHT"].value
        if self._limit < 1:
            raise GraphError(
                f"MAX_IN_FLIGHT is {self._limit}; it must be at least 1", code=Code.INTERNAL
            )
        self._in_flight = 0
        self._changes = 0
        #: Per data stream: the lowest timestamp that may still come.
        self._bounds = [ts.UNSET] * cc.inputs.num_entries("")
        #: Timestamps sent on one stream that others may still bring.
        self._sent: set[int] = set()
        self._last_dropped = ts.UNSET
        copy_headers(cc)

    def process(self, cc: CalculatorContext) -> None:
        allowed = self._in_flight < self._limit
        if not cc.inputs["FINISHED"].is_empty():
            if self._in_flight <= 0:
                raise GraphError(
                    "Received a FINISHED packet, but we had none in flight. Every packet sent must "
                    "come back exactly once.",
                    code=Code.INTERNAL,
                )
            self._in_flight -= 1
        for index in range(len(self._bounds)):
            self._pass(cc, index)
        complete = min(self._bounds)
        self._sent = {time for time in self._sent if time >= complete}
        if allowed != (self._in_flight < self._limit) and cc.outputs.has_tag("ALLOW"):
            self._changes += 1
            cc.outputs["ALLOW"].add(not allowed, self._changes)

    def _pass(self, cc: CalculatorContext, index: int) -> None:
        shard, output = cc.inputs[index], cc.outputs[index]
        time = shard.packet.time
        if ts.is_range_value(time) and self._bounds[index] <= time:
            self._bounds[index] = ts.clamp(time + 1)
            output.set_next_timestamp_bound(shard.packet.timestamp + 1)
        if shard.is_empty():
            if shard.is_done and not output.is_closed:
                output.close()
        elif time in self._sent:
            output.add_packet(shard.packet)
        elif self._in_flight < self._limit and time > self._last_dropped:
            output.add_packet(shard.packet)
            self._sent.add(time)
            self._in_flight += 1
        else:
            cc.get_counter("dropped").increment()
            self._last_dropped = max(self._last_dropped, time)
