"""RealTimeFlowLimiterCalculator: the older flow limiter, without a queue."""

from __future__ import annotations

from calculators.core.headers import copy_headers
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError
from graph_runtime import timestamp as ts


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
