"""The resource of an LLM node, out of the side packet ``LLM_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_runtime import Code, GraphError


def resource_of(resources: Mapping[str, Any], node: str) -> Any:
    """Return the resource of the node of this name.

    Raises:
        GraphError: there is none.
    """
    resource = resources.get(node)
    if resource is None:
        raise GraphError(
            f"Could not find initialized LLM node named: {node}", code=Code.FAILED_PRECONDITION
        )
    return resource
