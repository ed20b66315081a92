"""Calculators by family: ``core`` for every graph, others by what they serve.

Nothing is registered by importing; `register_all` is the entry point ``graphrt.calculators``.
Families that serve endpoints are tasks, which have entry points of their own
(`calculators.kit.tasks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register_all(registry: Registry) -> None:
    """Add every family's calculators, and those of all installed tasks, to a registry.

    A family is imported only when a graph names one of its nodes.
    """
    # Imported here: processes that run one family's code must not pay for the others.
    from importlib import import_module

    from calculators.kit import tasks
    from calculators.kit.family_names import NAMES

    for family, names in NAMES.items():

        def register(registry: Registry, family: str = family) -> None:
            import_module(family).register(registry)

        registry.register_family(names.__contains__, register)
    tasks.register(registry)
