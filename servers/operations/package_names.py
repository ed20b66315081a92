"""Clashes of our packages' general names with packages of other distributions."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

NAMES: Final = ("graphrt_base", "protos", "graph_runtime", "calculators", "servers")
CLASH_HINT: Final = "install graphrt in an environment of its own"
_OWN: Final = "graphrt"


def clashes() -> list[tuple[str, str]]:
    """Return (package, distribution) for each package of ours that another distribution has too.

    Installing two such distributions overwrites files silently, and uninstalling one removes files
    of the other.
    """
    # The standard library's `packages_distributions` makes an object of every installed file: a
    # quarter of a server's start, where there are 130 distributions.
    places = [path for path in sys.path if any((Path(path) / name).is_dir() for name in NAMES)]
    found = set()
    for each in distributions(path=places):
        packages = _ours(each)
        if packages and each.name.lower() != _OWN:
            found |= {(package, each.name) for package in packages}
    return sorted(found, key=lambda pair: (NAMES.index(pair[0]), pair[1]))


def clash_text(package: str, distribution: str) -> str:
    """Return a sentence for the operator about one of the `clashes`; `CLASH_HINT` is the remedy."""
    return (
        f"the package `{package}` of graphrt is also in the distribution {distribution}: one has "
        "overwritten the other's files"
    )


def _ours(distribution: Distribution) -> list[str]:
    """Return the names of `NAMES` that a distribution installs too."""
    # Older forms of installation list packages alone.
    files = distribution.read_text("RECORD") or distribution.read_text("top_level.txt") or ""
    lines = f"\n{files}\n"
    return [name for name in NAMES if f"\n{name}/" in lines or f"\n{name}\n" in lines]
