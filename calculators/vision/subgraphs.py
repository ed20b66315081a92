"""MediaPipe's subgraphs by the names under which its library registers them.

Each is a text below ``graphs/``, named as the subgraph: ``graphs/pose/PoseLandmarkCpu.pbtxt``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graph_runtime import SubgraphContext, parse_graph_text

if TYPE_CHECKING:
    from graph_runtime import Registry

_FOLDER: Final = Path(__file__).parent / "graphs"


def register_subgraphs(registry: Registry) -> None:
    """Add the subgraphs to a registry. A text is read when a graph names it."""
    for name, make in _subgraphs().items():
        registry.register_subgraph(make, name)


@cache
def _subgraphs() -> dict[str, Callable[[SubgraphContext], Any]]:
    return {file.stem: _subgraph(file) for file in sorted(_FOLDER.glob("*/*.pbtxt"))}


def _subgraph(file: Path) -> Callable[[SubgraphContext], Any]:
    """A function that makes the graph in a file, which is parsed once."""

    @cache
    def parsed() -> Any:
        return parse_graph_text(file.read_text(), source=file.name)

    def make(context: SubgraphContext) -> Any:
        config = type(parsed())()
        config.CopyFrom(parsed())
        return config

    make.__doc__ = f"MediaPipe's subgraph {file.stem}."
    return make
