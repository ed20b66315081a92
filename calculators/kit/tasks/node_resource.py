"""`node_resource`: finds the resource of a calculator's node."""

from __future__ import annotations

from typing import Any

from graph_runtime import CalculatorContext, Code, GraphError, SideIn


def node_resource(cc: CalculatorContext, resources: SideIn[dict[str, Any]], kind: str) -> Any:
    """Return the resource of the context's node.

    Args:
        resources: the side packet with the resources of all nodes, by node name.
        kind: the kind of node, for the error, whose text is OpenVINO Model Server's.

    Raises:
        GraphError: FAILED_PRECONDITION: there is none of this name.
    """
    name = cc.node_name
    found = cc.side(resources).get(name)
    if found is None:
        raise GraphError(
            f"Could not find initialized {kind} node named: {name}",
            code=Code.FAILED_PRECONDITION,
        )
    return found
