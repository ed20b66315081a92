"""Streams whose packets must be read and have no reader, found in a plan before it runs.

A type of packets demands a reader by its class attribute ``must_be_read``.
"""

from __future__ import annotations

from collections.abc import Iterator

from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.plan.plan import GraphWarning, NodePlan, ValidatedGraph


def unread_warnings(plan: ValidatedGraph) -> Iterator[GraphWarning]:
    """Warn of these streams, unless the graph has no outputs: then observers may read them."""
    if not plan.outputs.names:
        return
    read = {*plan.consumers, *plan.outputs.names}
    for node in plan.nodes:
        for name, kind in zip(node.outputs.names, node.output_types, strict=True):
            if name not in read and _must_be_read(kind):
                yield _warning(plan, node, name, kind)


def _must_be_read(kind: PacketType) -> bool:
    return any(getattr(each, "must_be_read", False) for each in kind.root().types)


def _warning(plan: ValidatedGraph, node: NodePlan, name: str, kind: PacketType) -> GraphWarning:
    wanted = kind.root().types
    for source, each in zip(node.inputs.names, node.input_types, strict=True):
        others = [
            plan.nodes[reader].name
            for reader, _ in plan.consumers[source]
            if reader != node.node_id and each.root().types == wanted
        ]
        if others:
            return GraphWarning(
                f'makes "{name}" of "{source}", but nobody reads "{name}": node "{others[0]}" '
                f'reads "{source}", past this node',
                node.name,
                node.origin,
                f'let node "{others[0]}" read "{name}"',
            )
    return GraphWarning(
        f'sends "{name}", and nobody reads it',
        node.name,
        node.origin,
        "connect it, or leave out the node",
        is_mistake=True,
    )
