"""Nodes without streams, from one run to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_runtime.packet import EMPTY

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.node import Node


class ConstantOutputs:
    """The side packets that a node without streams made in the previous run.

    They are sent again without opening the node while its inputs stay the same
    (MediaPipe ``calculator_node.cc`` OutputsAreConstant).
    """

    def __init__(self, node: Node) -> None:
        self.inputs = payload_ids(node)
        self._outputs = [side.packet for side in node.side_outputs]
        # Keeps the inputs alive, so that no other object can get their ids.
        self._kept = dict(node.side_inputs)

    def resend(self, context: CalculatorContext) -> None:
        """Send the side packets again, in place of ``open``."""
        sides = context.output_side_packets.in_order
        for side, packet in zip(sides, self._outputs, strict=True):
            if packet.payload is not EMPTY:
                side.set(packet)


def payload_ids(node: Node) -> dict[int, int]:
    """Return the identities of a node's input side packets, by place."""
    return {place: id(packet.payload) for place, packet in node.side_inputs.items()}
