"""DefaultSidePacketCalculator: a side packet that may be missing."""

from __future__ import annotations

from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class DefaultSidePacketCalculator(Calculator):
    """Passes a side packet on, or a default where the application gives none.

    Input side packets:
        OPTIONAL_VALUE (optional): of the type of DEFAULT_VALUE.
        DEFAULT_VALUE: of any type.
    Output side packets: VALUE.
    Options: none.

    ::

        node {
          calculator: "DefaultSidePacketCalculator"
          input_side_packet: "OPTIONAL_VALUE:limit"
          input_side_packet: "DEFAULT_VALUE:limit_by_default"
          output_side_packet: "VALUE:limit_to_use"
        }

    Source: MediaPipe ``calculators/core/default_side_packet_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        sides = contract.input_side_packets
        contract.require(sides.has_tag("DEFAULT_VALUE"), "Default value must be provided")
        default = sides["DEFAULT_VALUE"].set_any()
        sides["OPTIONAL_VALUE"].set_same_as(default).optional()
        contract.output_side_packets["VALUE"].set_same_as(default)

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        chosen = "OPTIONAL_VALUE" if sides.has_tag("OPTIONAL_VALUE") else "DEFAULT_VALUE"
        cc.output_side_packets["VALUE"].set(sides[chosen])
