"""The handler files that the nodes of a graph name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graph_runtime import GraphError, find_options
from protos import messages

CALCULATOR: Final = "PythonExecutorCalculator"
OPTIONS_TYPE = messages.PythonExecutorCalculatorOptions


def handler_paths(config: messages.CalculatorGraphConfig) -> Iterator[str]:
    """Yield the ``handler_path`` of each node of a ``CalculatorGraphConfig``, as it is written."""
    for node in config.node:
        if node.calculator == CALCULATOR:
            try:
                path = find_options(node, OPTIONS_TYPE).handler_path
            except GraphError:  # reported when the graph is loaded
                continue
            if path:
                yield path
