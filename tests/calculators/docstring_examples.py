"""Examples of nodes in the docstrings of calculators."""

from __future__ import annotations

import re
from typing import Any

from graph_runtime import Calculator, parse_graph_text


def example_graph(calculator: type[Calculator]) -> Any:
    """Return the example in a calculator's docstring as a ``CalculatorGraphConfig``.

    The streams and side packets of its nodes are inputs of the graph.
    """
    text = calculator.__doc__ or ""
    example, _, _ = text[text.index("::\n") + 2 :].partition("Source:")
    graph = parse_graph_text(example)
    names = {_name(entry) for node in graph.node for entry in node.input_stream}
    graph.input_stream.extend(sorted(names))
    names = {_name(entry) for node in graph.node for entry in node.input_side_packet}
    graph.input_side_packet.extend(sorted(names))
    return graph


def _name(entry: str) -> str:
    return re.sub(r".*:", "", entry)
