"""Calculators by room: ``core`` for every graph, others by what they serve.

Nothing is registered by importing; `register_all` is the entry point ``graphrt.calculators``.
Families that serve endpoints are tasks, which have entry points of their own
(`calculators.kit.tasks`).
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from graph_runtime import Registry


def register_all(registry: Registry) -> None:
    """Add the calculators of every family and of all installed tasks to a registry.

    A family is imported only when a graph names one of its nodes.
    """
    # Imported here: processes that run one family's code must not pay for the others.
    from calculators.kit import tasks
    from calculators.kit.family_names import NAMES

    for family, names in NAMES.items():

        def register(registry: Registry, family: str = family) -> None:
            import_module(family).register(registry)

        registry.register_family(names.__contains__, register)
    tasks.register(registry)


#: Rooms whose entries stood in this package in earlier versions, as which authors may import them.
_ROOMS: Final = ("kit", "images", "language", "speech", "tensors", "text")
#: Modules that authors of parsers import, in other packages today.
_MODULES_OF_PARSERS: Final = {
    "llm.parsers.events": "language.events",
    "llm.parsers.reasoning": "llm.parsers",
    "llm.parsers.tool": "llm.parsers",
}


def _present_name(name: str) -> str | None:
    """Return a module's name of today; None if ``name`` is not the former name of any."""
    package, _, rest = name.partition(".")
    if package != __name__:
        return None
    first, *others = rest.split(".")
    for room in _ROOMS:
        place = os.path.join(os.path.dirname(__file__), room, first)
        if os.path.isdir(place) or os.path.isfile(f"{place}.py"):
            return f"{package}.{room}.{rest}"
    former = ".".join((first, *others[:2]))
    if former in _MODULES_OF_PARSERS:
        return ".".join((package, _MODULES_OF_PARSERS[former], *others[2:]))
    return None


class _FormerNames:
    """Finds modules by the names that they had before rooms were joined, and warns."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # No class of `importlib.abc`, whose import every process would pay for.
        return ModuleSpec(name, cast("Any", cls())) if _present_name(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        present = _present_name(name)
        assert present is not None
        warnings.warn(f"{name} is {present} now", DeprecationWarning, stacklevel=2)
        found = import_module(present)
        if hasattr(found, "__path__"):
            # Without a path of its own, so that its modules are asked for here too, and are not
            # made a second time under another name.
            module.__path__ = []
            module.__getattr__ = found.__getattribute__  # type: ignore[method-assign]
        else:
            # The import system takes what stands here when the module has run.
            sys.modules[name] = found


# Behind all others, so that it is asked for nothing that can be found.
sys.meta_path.append(_FormerNames())
