"""Options of inner nodes of subgraphs, set by the node's name in the expanded graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_runtime import GraphConfigError, Registry
from graph_runtime.errors import did_you_mean
from graph_runtime.language.names import canonical_names
from graph_runtime.plan.subgraph import expand_subgraphs
from protos.pool import class_of, find_message


def expanded_with(config: Any, registry: Registry, changes: Mapping[str, Any]) -> Any:
    """Return the graph without subgraphs, with options of some of its nodes changed.

    Args:
        config: a ``CalculatorGraphConfig``; it is not changed.
        changes: values by ``node.field``; the name of an inner node is ``subgraph__Node``, as
            MediaPipe has it: ``posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh``.

    Raises:
        GraphConfigError: there is no such node, or its options have no such field.
    """
    expanded = expand_subgraphs(config, registry).config
    nodes = dict(zip(canonical_names(expanded.node), expanded.node, strict=True))
    for place, value in changes.items():
        name, _, field = place.rpartition(".")
        if name not in nodes:
            raise GraphConfigError(f'there is no node "{name}".{did_you_mean(name, nodes)}')
        _set_option(nodes[name], name, field, value)
    return expanded


def _set_option(node: Any, name: str, field: str, value: Any) -> None:
    for _, options in node.options.ListFields():
        if field in options.DESCRIPTOR.fields_by_name:
            setattr(options, field, value)
            return
    for held in node.node_options:
        kind = find_message(held.type_url.rpartition("/")[2])
        if kind is not None and field in kind.fields_by_name:
            options = class_of(kind).FromString(held.value)
            setattr(options, field, value)
            held.value = options.SerializePartialToString()
            return
    raise GraphConfigError(f'the options of the node "{name}" have no field "{field}"')
