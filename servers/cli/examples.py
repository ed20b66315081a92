"""The example models, graphs and projects of graphrt: in the wheel, or in a checkout."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: The package in which wheels carry the directory `examples` of the sources.
_PACKAGE: Final = "graphrt_examples"
_ROOT: Final = Path(__file__).parents[2]


def examples_directory() -> Path | None:
    """Return the directory with ``models``, ``graphs`` and ``projects``; None without one.

    A checkout uses its own directory, even if graphrt is installed too.
    """
    if (_ROOT / "pyproject.toml").is_file():
        return _ROOT / "examples"
    spec = find_spec(_PACKAGE)
    places = [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]
    return next((each for each in places if (each / "models").is_dir()), None)


def example_model(name: str) -> Path | None:
    """Return the directory of an example model by its name, such as ``demo``, or None."""
    root = examples_directory()
    if root is None or not name.isidentifier():
        return None
    directory = root / "models" / name
    has_model = (directory / "config.json").is_file() or (directory / "1").is_dir()
    return directory if has_model else None
