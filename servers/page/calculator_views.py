"""The registered calculators, for ``GET /v1/calculators`` and ``GET /v1/calculators/{name}``."""

from __future__ import annotations

import msgspec

from graph_runtime import NotFoundError, Registry
from graph_runtime.errors import did_you_mean
from servers.page.calculator_page import CalculatorPage, make_page, make_subgraph_page, summary_of
from servers.page.scratch_messages import CalculatorEntry, Calculators, CalculatorView


def list_calculators(registry: Registry) -> Calculators:
    """Return names and summaries of everything that a node may name."""
    return Calculators(
        [CalculatorEntry(name, summary_of(cls)) for name, cls in registry.calculators().items()],
        list(registry.subgraphs()),
    )


def view_calculator(name: str, registry: Registry) -> CalculatorView:
    """Return the description of a calculator or subgraph.

    Raises:
        NotFoundError: there is none of this name.
    """
    page = find_page(name, registry)
    if page is None:
        known = [*registry.calculators(), *registry.subgraphs()]
        raise NotFoundError(
            f'No calculator "{name[:100]}" is registered.{did_you_mean(name, known)}'
        )
    return msgspec.convert(page.to_json(), CalculatorView)


def find_page(name: str, registry: Registry) -> CalculatorPage | None:
    """Return the page of a calculator or subgraph; None if there is none of this name."""
    calculator = registry.find_calculator(name)
    if calculator is not None:
        return make_page(name, calculator)
    subgraph = registry.find_subgraph(name)
    return None if subgraph is None else make_subgraph_page(subgraph)
