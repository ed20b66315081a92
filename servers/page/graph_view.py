"""Views of a graph and of its nodes, for ``GET /v1/graphs/...``."""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter_ns
from typing import Any, Final

from graph_runtime import graph_to_text
from graph_runtime.engine.run import Run
from graph_runtime.language.names import canonical_names
from graph_runtime.observe.statistics import node_statistics
from graph_runtime.plan.plan import NodePlan
from servers.drawing.description import GraphDescription, describe_graph
from servers.drawing.drawing import Direction, GraphDrawing
from servers.drawing.layout import draw
from servers.page.events import FilePlace, GraphView, NodeError, NodeView, Waiting
from servers.page.live_graph import LiveGraph, ShownGraph

#: Running runs whose waits are shown, and failures of a node.
_MOST_RUNS: Final = 8
_MOST_ERRORS: Final = 8


def view_graph(
    shown: ShownGraph,
    revision: str,
    expand: Collection[str],
    direction: Direction = "right",
    *,
    with_text: bool,
) -> GraphView:
    """Return the description and drawing of a graph. Takes up to seconds: for a thread.

    ``expand``: paths of subgraph nodes that are shown open; ``*`` stands for all.

    Raises:
        GraphConfigError: a subgraph cannot be expanded.
    """
    description, layout = drawn(shown, expand, direction)
    names = canonical_names(shown.config.node)
    return GraphView(
        name=shown.name,
        revision=revision,
        file=shown.file,
        description=description.to_json(),
        layout=layout,
        places={
            name: FilePlace(shown.file, line, column)
            for name, (line, column) in zip(names, shown.places, strict=False)
        },
        text=shown.text if with_text else None,
    )


def drawn(
    shown: ShownGraph, expand: Collection[str], direction: Direction = "right"
) -> tuple[GraphDescription, GraphDrawing]:
    """Return description and layout of a graph; see `view_graph`."""
    # A subgraph inside another one is open only if that is.
    paths = [tuple(each.split("/")) for each in expand]
    opened = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    graph = describe_graph(
        shown.config,
        shown.registry,
        shown.plan,
        expand=True if "*" in expand else opened or False,
        problems=shown.problems,
    )
    return graph, draw(graph, shown.file, direction=direction)


def view_node(
    graph: LiveGraph, node: NodePlan, docs: dict[str, Any], *, with_text: bool
) -> NodeView:
    """Return the state of a node of a loaded graph."""
    name = node.name
    runs = graph.totals.running()[:_MOST_RUNS]
    errors = [each for each in graph.totals.failures if each.node == name]
    return NodeView(
        name=name,
        calculator=node.calculator_type,
        options=_options_of(node),
        docs=docs,
        waits=[_waiting(run, began, node.node_id) for run, began in runs],
        last=graph.last_packets(name),
        errors=[
            NodeError(each.time // 1000, each.code.name, each.text if with_text else "")
            for each in errors[-_MOST_ERRORS:]
        ],
    )


def _options_of(node: NodePlan) -> str:
    """Return the options of a node in protobuf's text form."""
    config = node.config
    options = type(config)()
    if config.HasField("options"):
        options.options.CopyFrom(config.options)
    options.node_options.extend(config.node_options)
    return graph_to_text(options).strip()


def _waiting(run: Run, began: int, node_id: int) -> Waiting:
    with run.lock:
        found = node_statistics(run, node_id)
    seconds = (perf_counter_ns() - began) / 1e9
    return Waiting(round(seconds, 3), found.state.name, list(found.waits_for))
