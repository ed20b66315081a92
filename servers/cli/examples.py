"""The example models and graphs that come with graphrt: in the wheel, or beside the sources."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: The package in which wheels carry the directory `examples` of the sources.
_PACKAGE: Final = "graphrt_examples"
_SOURCES: Final = Path(__file__).parents[2] / "examples"


def examples_directory() -> Path | None:
    """Return the directory with ``models`` and ``graphs``; None if it is not installed."""
    spec = find_spec(_PACKAGE)
    places = [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]
    return next((each for each in (*places, _SOURCES) if (each / "models").is_dir()), None)


def example_model(name: str) -> Path | None:
    """Return the directory of an example model by its name, such as ``demo``, or None."""
    root = examples_directory()
    if root is None or not name.isidentifier():
        return None
    directory = root / "models" / name
    has_model = (directory / "config.json").is_file() or (directory / "1").is_dir()
    return directory if has_model else None
