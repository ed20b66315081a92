"""Drawings of graphs for the site, as ``graphrt describe --format svg`` draws them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from graph_runtime import GraphError, Registry, ValidatedGraph, parse_graph_text, validate_graph
from servers.drawing.description import describe_graph
from servers.drawing.layout import draw
from servers.drawing.svg import to_svg
from servers.serving.graph_source import GraphSource
from servers.serving.python_path import registry_with


def draw_node(text: str, name: str, registry: Registry) -> str:
    """Return the drawing of a graph, or of nodes whose unconnected streams become the graph's.

    Raises:
        GraphError: the text does not parse.
    """
    config = connected(text)
    plan: ValidatedGraph | None = None
    with suppress(GraphError):
        # Without files and models some nodes do not validate; their ports are in the text.
        plan = validate_graph(config, registry=registry)
    return _svg(config, name, registry, plan)


def connected(text: str) -> Any:
    """Return the graph of a text; inputs without a source and outputs without a use are its own.

    Raises:
        GraphError: the text does not parse.
    """
    config = parse_graph_text(text)
    given = {_name(entry) for entry in config.input_stream}
    sent = {_name(entry) for node in config.node for entry in node.output_stream}
    used = {_name(entry) for node in config.node for entry in node.input_stream}
    config.input_stream.extend(sorted(used - sent - given))
    if not config.output_stream:
        config.output_stream.extend(sorted(sent - used))
    return config


def _name(entry: str) -> str:
    return entry.rpartition(":")[2]


def _svg(config: Any, name: str, registry: Registry, plan: ValidatedGraph | None) -> str:
    graph = describe_graph(config, registry, plan)
    return to_svg(draw(graph, name, has_feet=False))


def draw_file(file: Path, registry: Registry) -> str:
    """Return the drawing of a graph's file, with the calculators beside it where it needs them.

    Raises:
        GraphError: the graph cannot run.
    """
    source = GraphSource(str(file), registry)
    try:
        plan = source.validate()
    except GraphError:
        modules = registry_with(tuple(sorted(file.parent.glob("*.py"))), Registry(registry))
        source = GraphSource(str(file), modules.registry)
        plan = source.validate()
    title = file.parent.name if file.stem == "graph" else file.stem
    return _svg(source.config, title, source.registry, plan)
