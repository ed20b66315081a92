"""`GRAPH_DIRECTORY`: the directory of files that a graph names by a relative path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graph_runtime import Code, GraphError, GraphService

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


#: The ending of MediaPipe's models.
_MODEL: Final = ".tflite"
#: Models that OpenVINO Model Server's configurations name otherwise than their files.
_SERVED_NAMES: Final = {"face_detection_short_range": ("face_detection",)}


class MissingFileError(GraphError):
    """A file that a graph names is nowhere. ``path`` is its name in the graph."""

    code = Code.NOT_FOUND

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def _nothing_is_served(name: str) -> None:
    return None


def find_graph_file(
    path: str,
    directory: Path,
    served: Callable[[str], Path | None] = _nothing_is_served,
) -> Path:
    """Return the file of that name beside the graph, else in the working directory.

    MediaPipe's own files, ``mediapipe/...``, are also found where `find_mediapipe_file` looks.
    Before that the file of a served model counts, which for ``mediapipe/.../NAME.tflite`` is the
    one named NAME, as OpenVINO Model Server runs MediaPipe's subgraphs.

    Args:
        directory: of the graph.
        served: returns the file of the served model of a name, or None.

    Raises:
        MissingFileError: there is no such file, or the served model has none.
    """
    beside = directory / path
    if beside.is_file():
        return beside
    is_own = path.startswith("mediapipe/")
    stem = Path(path).stem
    names = (stem, *_SERVED_NAMES.get(stem, ())) if is_own and path.endswith(_MODEL) else ()
    found: dict[str, Path] = {}
    for name in names:
        try:
            file = served(name)
        except GraphError as error:
            raise MissingFileError(f'the model "{name}": {error}', path) from error
        if file is not None:
            if file.suffix == _MODEL:
                return file
            found[name] = file
    elsewhere = find_mediapipe_file(path, directory) or Path(path)
    if elsewhere.is_file():
        return elsewhere
    if not is_own:
        hint = " beside the graph or in the working directory"
    elif not names:
        hint = "; graphrt pull mediapipe copies MediaPipe's files"
    else:
        others = "".join(f'; the model "{name}" is {file.name}' for name, file in found.items())
        wanted = " or ".join(f'"{name}"' for name in names)
        hint = (
            f"{others}; serve that file as a model with the name {wanted}, or copy MediaPipe's "
            f"models with graphrt pull mediapipe"
        )
    raise MissingFileError(f'there is no file "{path}"{hint}', path)
