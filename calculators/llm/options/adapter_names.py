"""Under which names the adapters of a graph are asked for, without loading anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from graph_runtime import GraphError, find_options, has_options

OPTIONS_TYPE: Final = "mediapipe.LLMCalculatorOptions"


def adapter_names(config: Any) -> Iterator[str]:
    """The name of each adapter of each node of a ``CalculatorGraphConfig``, as it is written."""
    for node in config.node:
        try:
            if has_options(node, OPTIONS_TYPE):
                yield from (each.name for each in find_options(node, OPTIONS_TYPE).adapters)
        except GraphError:  # said when the graph is loaded
            continue
