"""Registration of the family's calculators and subgraphs."""

from __future__ import annotations

from calculators.vision.calculators import CALCULATORS
from calculators.vision.subgraphs import register_subgraphs
from graph_runtime import Registry


def register_all(registry: Registry) -> None:
    """Add all calculators and subgraphs to a registry."""
    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
    register_subgraphs(registry)
