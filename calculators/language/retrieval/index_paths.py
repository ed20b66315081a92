"""The indexes that a graph names, for servers that follow its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graph_runtime import GraphError, find_options
from protos import messages

CALCULATOR: Final = "RetrievalCalculator"
OPTIONS_TYPE = messages.RetrievalOptions


def index_paths(config: messages.CalculatorGraphConfig) -> Iterator[str]:
    """Yield the ``index`` of each retrieval node of a ``CalculatorGraphConfig``, as written."""
    for node in config.node:
        if node.calculator == CALCULATOR:
            try:
                path = find_options(node, OPTIONS_TYPE).index
            except GraphError:  # reported when the graph is loaded
                continue
            if path:
                yield path
