"""Retrieval: passages of the operator's documents for a language model, with their sources.

``graphrt index`` fills an index; a `RetrievalCalculator` searches it for the user's question and
puts the passages that it finds into the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from graph_runtime import GraphError, find_options

if TYPE_CHECKING:
    from graph_runtime import Registry

CALCULATOR: Final = "RetrievalCalculator"
OPTIONS_TYPE: Final = "graphrt.RetrievalOptions"


def index_paths(config: Any) -> Iterator[str]:
    """Yield the ``index`` of each retrieval node of a ``CalculatorGraphConfig``, as written."""
    for node in config.node:
        if node.calculator == CALCULATOR:
            try:
                path = find_options(node, OPTIONS_TYPE).index
            except GraphError:  # reported when the graph is loaded
                continue
            if path:
                yield path


def register(registry: Registry) -> None:
    """Add the family's calculator, and the maker of its resource, to a registry."""
    from calculators.language.retrieval.retrieval_calculator import (
        RetrievalCalculator,
        RetrievalResourceInitializer,
    )

    registry.register_calculator(RetrievalCalculator)
    registry.register_resource_initializer(RetrievalResourceInitializer())
