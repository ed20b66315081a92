"""Names of isolated packages, which let two modules of the same name live in one process.

Each isolated package has a number, so its name is unique; its modules register their calculators in
the package's own registry (`graph_runtime.plan.registry.new_package`).
"""

from __future__ import annotations

import itertools
import re
from typing import Final

_PREFIX: Final = "graphrt_isolated_"
_PACKAGE: Final = re.compile(rf"{_PREFIX}\d+\.")
_numbers = itertools.count(1)


def new_package_name() -> str:
    """A package name that no other package of this process has. Any thread."""
    return f"{_PREFIX}{next(_numbers)}"


def own_name(module: str) -> str:
    """Return the name that the module's author gave it: without the isolated package."""
    return _PACKAGE.sub("", module, count=1)
