"""`GRAPH_DIRECTORY`: the directory of files that a graph names by a relative path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from graph_runtime import GraphService

#: The directory of the graph's own file. A server of graphs provides it; by default it is the
#: working directory.
GRAPH_DIRECTORY: Final = GraphService[Path]("graphrt::GraphDirectory", Path)


def graph_file(path: str, directory: Path) -> Path:
    """The file of that name beside the graph, else in the working directory, as in MediaPipe."""
    beside = directory / path
    return beside if beside.is_file() else Path(path)
