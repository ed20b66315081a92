"""Language models: `HttpLLMCalculator`, its engine process, prompts, requests and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators and resource initializer to a registry."""
    # Imported here: the child processes live in this package and need none of it.
    from calculators.llm.http_llm_calculator import HttpLLMCalculator
    from calculators.llm.resources import LlmResourceInitializer

    registry.register_calculator(HttpLLMCalculator)
    registry.register_resource_initializer(LlmResourceInitializer())
