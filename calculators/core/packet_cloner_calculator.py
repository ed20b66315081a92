"""PacketClonerCalculator: the latest packets again, at every tick."""

from __future__ import annotations

from calculators.core.headers import copy_headers
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Options,
    Packet,
    Timestamp,
)
from graph_runtime import timestamp as ts


class PacketClonerCalculator(Calculator):
    """Repeats the latest packet of each stream at the timestamps of a tick stream.

    Inputs:
        #i: streams of any type.
        TICK: of any type. Without this tag the last untagged stream is the tick.
    Outputs: #i: at each tick, the latest packet of input i, at the tick's timestamp; nothing
        before its first one.
    Options (mediapipe.PacketClonerCalculatorOptions):
        output_only_when_all_inputs_received: until every input had a packet, send nothing and
            promise nothing.
        output_packets_only_when_all_inputs_received: until then, send only timestamp bounds.

    ::

        node {
          calculator: "PacketClonerCalculator"
          input_stream: "slow_signal"
          input_stream: "TICK:fast_signal"
          output_stream: "slow_signal_cloned"
        }

    Source: MediaPipe ``calculators/core/packet_cloner_calculator.cc``.
    """

    options = Options("mediapipe.PacketClonerCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("")
        if inputs.has_tag("TICK"):
            inputs["TICK"].set_any()
        else:
            contract.require(
                count > 0, "there must be a tick: a stream tagged TICK, or the last one without tag"
            )
            count -= 1
            inputs[count].set_any()
        for index in range(count):
            outputs[index].set_same_as(inputs[index].set_any())
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._waits_for_all = (
            options.output_only_when_all_inputs_received
            or options.output_packets_only_when_all_inputs_received
        )
        self._bounds_while_waiting = options.output_packets_only_when_all_inputs_received
        count = cc.inputs.num_entries("")
        has_tag = cc.inputs.has_tag("TICK")
        self._tick: str | int = "TICK" if has_tag else count - 1
        self._latest: list[Packet | None] = [None] * (count if has_tag else count - 1)
        copy_headers(cc)

    def process(self, cc: CalculatorContext) -> None:
        latest = self._latest
        for index in range(len(latest)):
            packet = cc.inputs[index].packet
            if not packet.is_empty():
                latest[index] = packet
        tick = cc.inputs[self._tick].packet
        is_waiting = self._waits_for_all and None in latest
        if not tick.is_empty() and not is_waiting:
            for index, known in enumerate(latest):
                if known is not None:
                    cc.outputs[index].add_packet(known.at(tick.timestamp))
        if tick.time == cc.time and (not is_waiting or self._bounds_while_waiting):
            bound = Timestamp.of(ts.next_allowed_in_stream(cc.time))
            for index in range(len(latest)):
                cc.outputs[index].set_next_timestamp_bound(bound)
