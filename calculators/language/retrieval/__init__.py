"""Retrieval: passages of the operator's documents for a language model, with their sources.

``graphrt index`` fills an index; a `RetrievalCalculator` searches it for the user's question and
puts the passages that it finds into the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculator, and the maker of its resource, to a registry."""
    from calculators.language.retrieval.retrieval_calculator import (
        RetrievalCalculator,
        RetrievalResourceInitializer,
    )

    registry.register_calculator(RetrievalCalculator)
    registry.register_resource_initializer(RetrievalResourceInitializer())
