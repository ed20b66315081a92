"""ValueOrDefaultCalculator: a packet at every tick."""

from __future__ import annotations

from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class ValueOrDefaultCalculator(Calculator):
    """Fills the gaps of a stream with a default, at the timestamps of another stream.

    Inputs:
        IN: of any type. Packets at timestamps without TICK are dropped.
        TICK: of any type.
    Outputs:
        OUT: at each TICK, the packet of IN or the default.
        FLAG (bool): true where the default was used; nothing elsewhere.
    Input side packets: #0: the default, of the type of IN.
    Options: none.

    ::

        node {
          calculator: "ValueOrDefaultCalculator"
          input_stream: "IN:sometimes_missing"
          input_stream: "TICK:clock"
          input_side_packet: "default"
          output_stream: "OUT:value"
          output_stream: "FLAG:is_default"
        }

    Source: MediaPipe ``calculators/core/value_or_default_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        value = contract.inputs["IN"].set_any()
        contract.inputs["TICK"].set_any()
        contract.outputs["OUT"].set_same_as(value)
        contract.outputs["FLAG"].set(bool)
        contract.input_side_packets[0].set_same_as(value)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._default = cc.input_side_packets[0]
        header = cc.inputs["IN"].header
        if not header.is_empty():
            cc.outputs["OUT"].set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["TICK"].is_empty():
            return
        packet = cc.inputs["IN"].packet
        if packet.is_empty():
            packet = self._default.at(cc.input_timestamp)
            cc.outputs["FLAG"].add(True, cc.input_timestamp)
        cc.outputs["OUT"].add_packet(packet)
