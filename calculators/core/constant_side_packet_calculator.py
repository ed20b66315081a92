"""ConstantSidePacketCalculator: side packets with values from the graph's text."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

#: The repeated field of each list message of the options, and the type of the list.
_LISTS: dict[str, tuple[str, Any]] = {
    "string_vector_value": ("string_value", list[str]),
    "float_vector_value": ("float_value", list[float]),
    "int_vector_value": ("int_value", list[int]),
}


class ConstantSidePacketCalculator(Calculator):
    """Makes side packets of the values in its options.

    Output side packets: PACKET:i: one per ``packet`` of the options, of the type of its value.
    Options (mediapipe.ConstantSidePacketCalculatorOptions):
        packet: repeated; one of int_value, uint64_value, int64_value, float_value, double_value,
            bool_value, string_value, string_vector_value, float_vector_value, int_vector_value
            (lists), classification_list_value, landmark_list_value, time_series_header_value,
            matrix_data_value (the messages themselves).

    ::

        node {
          calculator: "ConstantSidePacketCalculator"
          output_side_packet: "PACKET:0:top_k"
          output_side_packet: "PACKET:1:labels"
          options {
            [mediapipe.ConstantSidePacketCalculatorOptions.ext] {
              packet { int_value: 5 }
              packet { string_vector_value { string_value: ["cat", "dog"] } }
            }
          }
        }

    Source: MediaPipe ``calculators/core/constant_side_packet_calculator.cc``.
    """

    options = Options("mediapipe.ConstantSidePacketCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        constants = contract.options("mediapipe.ConstantSidePacketCalculatorOptions").packet
        outputs = contract.output_side_packets
        count = outputs.num_entries("PACKET")
        contract.require(
            count == len(constants),
            "Number of output side packets has to be same as number of packets configured in "
            f"options. There are {count} side packets and {len(constants)} in the options.",
        )
        for index, constant in enumerate(constants):
            contract.require(
                constant.WhichOneof("value") is not None,
                f"None of supported values were specified in options: packet {index} is empty.",
            )
            outputs["PACKET", index].set(_type_of(constant))

    def open(self, cc: CalculatorContext) -> None:
        for index, constant in enumerate(self.options.packet):
            cc.output_side_packets["PACKET", index].set(_value_of(constant))


def _value_of(constant: Any) -> Any:
    field = constant.WhichOneof("value")
    value = getattr(constant, field)
    return list(getattr(value, _LISTS[field][0])) if field in _LISTS else value


def _type_of(constant: Any) -> Any:
    field = constant.WhichOneof("value")
    if field in _LISTS:
        return _LISTS[field][1]
    return type(getattr(constant, field))
