"""`GRAPH_DIRECTORY`: the directory of files that a graph names by a relative path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graph_runtime import GraphService

#: Names the directory that holds the folder ``mediapipe``, before all other places.
VARIABLE: Final = "GRAPHRT_MEDIAPIPE"


def pulled_directory() -> Path:
    """Return the directory into which ``graphrt pull mediapipe`` copies the files."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "graphrt"


def find_mediapipe_file(path: str, beside: Path) -> Path | None:
    """Return the file that a graph names ``mediapipe/...``; None if it is nowhere.

    The places, in order: the directory that ``GRAPHRT_MEDIAPIPE`` names, the graph's directory and
    those above it, the working directory, the directory of `pulled_directory`, an installed wheel
    of MediaPipe, whose files are read and whose code is not.
    """
    if not path.startswith("mediapipe/") or ".." in Path(path).parts:
        return None
    return next((file for root in _roots(beside) if (file := root / path).is_file()), None)


def _roots(beside: Path) -> Iterator[Path]:
    if named := os.environ.get(VARIABLE):
        yield Path(named)
    own = beside.absolute()
    yield own
    yield from own.parents
    yield Path()
    yield pulled_directory()
    if (installed := installed_directory()) is not None:
        yield installed


@cache
def installed_directory() -> Path | None:
    """Return the directory that holds an installed package ``mediapipe``, which is not imported."""
    spec = find_spec("mediapipe")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]).parent if places else None


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
