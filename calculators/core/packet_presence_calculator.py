"""PacketPresenceCalculator: the presence of packets as boolean values."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, In, Out


class PacketPresenceCalculator(Calculator):
    """Reports for each timestamp whether its input has a packet.

    With GateCalculator it lets a graph act on missing packets.

    Inputs: PACKET: of any type.
    Outputs: PRESENCE (bool): true for a packet; false where the input is settled without one (once
        for a bound that passes several timestamps).
    Options: none.

    ::

        node {
          calculator: "PacketPresenceCalculator"
          input_stream: "PACKET:detections"
          output_stream: "PRESENCE:has_detections"
        }

    Source: MediaPipe ``calculators/core/packet_presence_calculator.cc``.
    """

    packet = In[Any]("PACKET")
    presence = Out[bool]("PRESENCE")

    process_timestamp_bounds = True

    def process(self, cc: CalculatorContext) -> None:
        cc.output_list[0].add(not cc.input_list[0].is_empty(), cc.input_timestamp)
