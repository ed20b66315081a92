"""Ports that can be an input stream or an input side packet."""

from __future__ import annotations

from graph_runtime import CalculatorContract


def require_one_place(contract: CalculatorContract, tag: str) -> None:
    """Refuse a node without exactly one of an input stream and a side packet of this tag."""
    is_stream = contract.inputs.has_tag(tag)
    is_side_packet = contract.input_side_packets.has_tag(tag)
    contract.require(
        not (is_stream and is_side_packet),
        f"{tag} can be connected as a stream or as a side packet, but not both",
    )
    contract.require(
        is_stream or is_side_packet,
        f"{tag} must be connected, as an input stream or as an input side packet",
    )
