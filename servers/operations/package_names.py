"""Our packages have general names: does another distribution own one of them too?"""

from __future__ import annotations

from importlib.metadata import packages_distributions
from typing import Final

NAMES: Final = ("protos", "graph_runtime", "calculators", "servers")
_OWN: Final = "graphrt"


def clashes() -> list[tuple[str, str]]:
    """(package, distribution) of each that another distribution has too.

    Installing two such distributions overwrites files without a word, and uninstalling one removes
    the other's.
    """
    owners = packages_distributions()
    return [
        (package, distribution)
        for package in NAMES
        for distribution in dict.fromkeys(owners.get(package, ()))
        if distribution.lower() != _OWN
    ]
