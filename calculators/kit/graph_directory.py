"""`GRAPH_DIRECTORY`: the directory of files that a graph names by a relative path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from calculators.kit.mediapipe_directory import find_mediapipe_file
from graph_runtime import GraphService

#: The directory of the graph's own file. A server of graphs provides it; by default it is the
#: working directory.
GRAPH_DIRECTORY: Final = GraphService[Path]("graphrt::GraphDirectory", Path)


def graph_file(path: str, directory: Path) -> Path:
    """The file of that name beside the graph, else in the working directory, as in MediaPipe.

    MediaPipe's own files, ``mediapipe/...``, are also found where `find_mediapipe_file` looks.
    """
    beside = directory / path
    if beside.is_file():
        return beside
    return find_mediapipe_file(path, directory) or Path(path)
