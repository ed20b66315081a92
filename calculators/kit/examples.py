"""The example models, graphs and projects of graphrt, and models that were pulled.

Examples are in the wheel, or in a checkout. Wherever a model, a graph or a file is named,
``examples/...``, an example model's name and the name of a pulled model, ``org/name``, stand for
these if nothing of that name lies there.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: The package in which wheels carry the directory `examples` of the sources.
_PACKAGE: Final = "graphrt_examples"
_ROOT: Final = Path(__file__).parents[2]
#: OpenVINO Model Server's variable.
STORE_VARIABLE: Final = "OVMS_MODEL_REPOSITORY_PATH"


def examples_directory() -> Path | None:
    """Return the directory with ``models``, ``graphs`` and ``projects``; None without one.

    A checkout uses its own directory, even if graphrt is installed too.
    """
    if (_ROOT / "pyproject.toml").is_file():
        return _ROOT / "examples"
    spec = find_spec(_PACKAGE)
    places = [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]
    return next((each for each in places if (each / "models").is_dir()), None)


def example_models() -> dict[str, Path]:
    """Return the directories of the example models by their names, such as ``demo``."""
    root = examples_directory()
    found = () if root is None else sorted((root / "models").iterdir())
    return {
        each.name: each
        for each in found
        if (each / "config.json").is_file() or (each / "1").is_dir()
    }


def example_model(name: str) -> Path | None:
    """Return the directory of an example model, or None."""
    return example_models().get(name)


#: The places of what addresses in object stores name, such as ``s3://models/resnet``, as the server
#: has brought it here.
STORED_COPIES: Final[dict[str, Path]] = {}


def find_path(path: str, directory: Path) -> Path:
    """Return the path that a config or a node names, absolute; ``directory`` is where it starts.

    If nothing is there, it may be an example, ``demo`` or ``examples/graphs/guard``, or a model
    that was pulled: ``OpenVINO/whisper-base-int8-ov``.
    """
    if (copy := STORED_COPIES.get(path)) is not None:
        return copy
    found = Path(directory, path).absolute()
    if os.path.lexists(found):
        return found
    return example(path) or example_model(path) or _pulled_model(path) or found


def default_store_directory() -> Path:
    """Return the directory of models: ``$OVMS_MODEL_REPOSITORY_PATH``, else one in the caches."""
    named = os.environ.get(STORE_VARIABLE)
    if named:
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "graphrt" / "models"


def _pulled_model(path: str) -> Path | None:
    """Return the directory of a pulled model ``org/name``, absolute, or None."""
    parts = path.split("/")
    if len(parts) != 2 or any(not part or part.startswith(".") for part in parts):
        return None
    directory = (default_store_directory() / path).absolute()
    return directory if directory.is_dir() else None


def example_name(path: str) -> str:
    """Return the path of an installed example as people write it; other paths as they are."""
    root = examples_directory()
    if root is None or not Path(path).is_absolute() or not Path(path).is_relative_to(root):
        return path
    return f"examples/{Path(path).relative_to(root)}"


def example(path: str) -> Path | None:
    """Return the example that a path ``examples/...`` names, or None.

    A graph of one file may be named as `graphrt examples` lists it, without its suffix.
    """
    first, slash, rest = path.removeprefix("./").partition("/")
    root = examples_directory() if first == "examples" and slash else None
    if root is None or ".." in Path(rest).parts:
        return None
    places = (root / rest, root / f"{rest}.pbtxt")
    return next((each for each in places if os.path.lexists(each)), None)
