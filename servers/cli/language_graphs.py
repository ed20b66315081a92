"""The page ``docs/language_graphs.md``: the example graphs of language models, drawn.

``python -m servers.cli.language_graphs > docs/language_graphs.md`` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import calculators
from calculators.kit.examples import examples_directory
from graph_runtime import REGISTRY, Registry
from servers.cli.examples import ROW
from servers.drawing.description import describe_graph
from servers.drawing.diagram import make_diagram, to_mermaid
from servers.serving.graph_source import GraphSource
from servers.serving.python_path import registry_with

_HEAD: Final = """\
# Graphs of language models

The example graphs in which a language model is one node among others; a test serves each. Made by
`python -m servers.cli.language_graphs`; do not edit.

Ovals are the streams of the graph, boxes are nodes. An arrow has the name of its stream and the
type of its packets; a dotted one is a back edge, a double one is a side packet, such as a loaded
model. `graphrt describe GRAPH` draws any graph in this way, as text or with `--format svg`, and
`graphrt run GRAPH --text "Hello"` asks it ([serving](serving.md#trying-a-language-graph)).
"""


class LanguageGraph(NamedTuple):
    """An example graph: its file below ``examples/graphs``, and what it shows."""

    file: str
    shows: str


def language_graphs() -> Iterator[LanguageGraph]:
    """Yield the example graphs with streams of deltas, in the order of their page."""
    graphs = _graphs()
    files = [
        str(file.relative_to(graphs))
        for file in sorted(graphs.glob("*/*.pbtxt"))
        if "DELTAS:" in file.read_text(encoding="utf-8")
    ]
    for named, shows in ROW.findall((graphs / "README.md").read_text(encoding="utf-8")):
        folder = named.partition("/")[0]
        file = named if named in files else f"{folder}/graph.pbtxt"
        if file in files:
            files.remove(file)
            yield LanguageGraph(file, shows)
    assert not files, f"examples/graphs/README.md has no row for {', '.join(files)}"


def page() -> str:
    """Return the page in Markdown."""
    calculators.register_all(REGISTRY)
    return "\n".join([_HEAD, *map(_section, language_graphs())])


def _section(example: LanguageGraph) -> str:
    file = _graphs() / example.file
    title = file.parent.name if file.stem == "graph" else f"{file.parent.name}: {file.stem}"
    shows = example.shows[0].upper() + example.shows[1:]
    return (
        f"## {title}\n\n{shows}. [{example.file}](../examples/graphs/{example.file})\n\n"
        f"```mermaid\n{_drawing(file).strip()}\n```\n"
    )


def _drawing(file: Path) -> str:
    """Return the drawing of a graph, with the calculators beside it."""
    # Absolute, so that the text of the page does not depend on the working directory.
    modules = registry_with(tuple(sorted(file.parent.glob("*.py"))), Registry(REGISTRY))
    source = GraphSource(str(file), modules.registry)
    graph = describe_graph(source.config, source.registry, source.validate())
    return to_mermaid(make_diagram(graph, file.name))


def _graphs() -> Path:
    root = examples_directory()
    assert root is not None, "the examples are in the checkout"
    return root / "graphs"


if __name__ == "__main__":
    sys.stdout.write(page())
