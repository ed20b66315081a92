"""Clashes of our packages' general names with packages of other distributions."""

from __future__ import annotations

from importlib.metadata import packages_distributions
from typing import Final

NAMES: Final = ("protos", "graph_runtime", "calculators", "servers")
_OWN: Final = "graphrt"


def clashes() -> list[tuple[str, str]]:
    """Return (package, distribution) for each package of ours that another distribution has too.

    Installing two such distributions overwrites files silently, and uninstalling one removes files
    of the other.
    """
    owners = packages_distributions()
    return [
        (package, distribution)
        for package in NAMES
        for distribution in dict.fromkeys(owners.get(package, ()))
        if distribution.lower() != _OWN
    ]
