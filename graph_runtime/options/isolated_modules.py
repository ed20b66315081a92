"""Modules that belong to one registry, so that two of the same name can be in one process.

Whoever imports them gives them a package of a name that is nobody else's; what they register with
the decorator `graph_runtime.authoring.calculator` goes into their registry.
"""

from __future__ import annotations

import itertools
import re
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from graph_runtime.plan.registry import Registry

_PREFIX: Final = "graphrt_isolated_"
_PACKAGE: Final = re.compile(rf"{_PREFIX}\d+\.")
_numbers = itertools.count(1)
_lock = threading.Lock()
_registries: WeakValueDictionary[str, Registry] = WeakValueDictionary()


def new_package(registry: Registry) -> str:
    """The name of a package whose modules register in ``registry``, while that exists."""
    with _lock:
        name = f"{_PREFIX}{next(_numbers)}"
        _registries[name] = registry
    return name


def owner_of(module: str) -> Registry | None:
    """The registry that a module belongs to; None for all usual modules."""
    return _registries.get(module.partition(".")[0])


def own_name(module: str) -> str:
    """What the module's author calls it."""
    return _PACKAGE.sub("", module, count=1)
