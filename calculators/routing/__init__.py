"""Routing: which model answers a request, which one if it cannot, and how the branches join."""

from __future__ import annotations

from calculators.routing.fallback_calculator import FallbackCalculator
from calculators.routing.first_answer_calculator import FirstAnswerCalculator
from calculators.routing.router_calculator import RouterCalculator
from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators of this family."""
    for calculator in (FallbackCalculator, FirstAnswerCalculator, RouterCalculator):
        registry.register_calculator(calculator)
