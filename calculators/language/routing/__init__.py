"""Routing: which model answers a request, which one if it cannot, and how the branches join."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators of this room, and the resources of labels, to a registry."""
    from calculators.language.routing.fallback_calculator import (
        FallbackCalculator,
        FirstAnswerCalculator,
    )
    from calculators.language.routing.router_calculator import (
        RequestLabelCalculator,
        RouterCalculator,
    )
    from calculators.text.text_classification.classifier import (
        TextClassificationResourceInitializer,
    )

    for calculator in (
        FallbackCalculator,
        FirstAnswerCalculator,
        RequestLabelCalculator,
        RouterCalculator,
    ):
        registry.register_calculator(calculator)
    # Also registered by the task, where a graph has its nodes; of one type the first counts.
    registry.register_resource_initializer(TextClassificationResourceInitializer())
