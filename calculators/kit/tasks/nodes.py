"""Options, devices and resources of the nodes that have a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from graph_runtime import (
    CalculatorContext,
    Code,
    GraphError,
    NodePlan,
    ResourceError,
    SideIn,
    find_options,
    has_options,
)
from graph_runtime.options.options import OptionsType

T = TypeVar("T")


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


@contextmanager
def naming_node(node: NodePlan) -> Iterator[None]:
    """Put the name of a node before the text of each `ResourceError` raised inside."""
    try:
        yield
    except ResourceError as error:
        raise ResourceError(f'node "{node.config.name}": {error}', code=error.code) from None


def find_model_options(node: NodePlan, options_type: type[T]) -> T:
    """Return the options of a node, a message of a type that has ``models_path``.

    Raises:
        ResourceError: the node has none; the text says how to write them.
    """
    if not has_options(node.config, options_type):
        name = OptionsType.of(options_type).full_name
        raise ResourceError(
            "it has no options; it needs at least node_options: { "
            f'[type.googleapis.com/{name}]: {{ models_path: "./" }} }}'
        )
    return find_options(node.config, options_type)
