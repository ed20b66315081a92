"""Drawings of graphs for the site, as ``graphrt describe --format svg`` draws them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from graph_runtime import GraphError, Registry, ValidatedGraph, parse_graph_text, validate_graph
from servers.drawing.description import describe_graph
from servers.drawing.diagram import make_diagram
from servers.drawing.layout import draw
from servers.drawing.mermaid import to_mermaid
from servers.drawing.svg import to_svg
from servers.serving.author_code import registry_with
from servers.serving.graph_source import GraphSource
from website.repository_pages import ROOT

_EXAMPLES: Final = ROOT / "examples"
_MERMAID: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.S | re.M)


def draw_node(text: str, name: str, registry: Registry) -> str:
    """Return the drawing of a graph, or of nodes whose unconnected streams become the graph's.

    Raises:
        GraphError: the text does not parse.
    """
    config = connected(text)
    plan: ValidatedGraph | None = None
    try:
        plan = validate_graph(config, registry)
    except GraphError:
        pass  # Without files and models some nodes do not validate; their ports are in the text.
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


class ExampleDrawings:
    """The example graphs that pages show, drawn.

    Attributes:
        files: the drawings by their paths in the site. Filled by `by_mermaid`.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.files: dict[str, str] = {}

    def by_mermaid(self) -> dict[str, str]:
        """Return Markdown that shows a drawing, by the ``mermaid`` text of the same graph.

        Raises:
            AssertionError: a page has a ``mermaid`` block that is no example graph's.
        """
        wanted = set(_mermaid_blocks())
        shown = {}
        for file in sorted(_EXAMPLES.rglob("*.pbtxt")):
            drawn = self._drawn(file, wanted - shown.keys())
            if drawn is not None:
                shown[drawn[0]] = drawn[1]
        left = wanted - shown.keys()
        assert not left, f"a mermaid block of a page is no example graph's:\n{min(left)}"
        return shown

    def _drawn(self, file: Path, wanted: set[str]) -> tuple[str, str] | None:
        """Return mermaid text and Markdown of a graph, if a page shows it."""
        modules = registry_with(
            tuple(sorted(file.parent.glob("*.py"))), Registry(self._registry)
        )
        try:
            source = GraphSource(str(file), modules.registry)
            plan = source.validate()
        except GraphError:
            return None  # A graph with an index or a model that a command makes first.
        graph = describe_graph(source.config, source.registry, plan)
        mermaid = to_mermaid(make_diagram(graph, file.name))
        if mermaid not in wanted:
            return None
        title = file.parent.name if file.stem == "graph" else file.stem
        path = f"drawings/{file.parent.name}_{file.stem}.svg"
        self.files[path] = to_svg(draw(graph, title, has_feet=False))
        return mermaid, f"![The graph {title}]({path})\n"


def _mermaid_blocks() -> list[str]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *_EXAMPLES.rglob("*.md")]
    return [
        block for page in pages for block in _MERMAID.findall(page.read_text(encoding="utf-8"))
    ]
