"""What the family registers."""

from __future__ import annotations

import re

import pytest

from calculators import python
from calculators.python.py_tensor_ov_tensor_converter_calculator import (
    PyTensorOvTensorConverterCalculator,
)
from calculators.python.python_executor_calculator import PythonExecutorCalculator
from graph_runtime import REGISTRY, Calculator, Registry, parse_graph_text, validate_graph

CALCULATORS = (PythonExecutorCalculator, PyTensorOvTensorConverterCalculator)


def test_registering_twice_changes_nothing() -> None:
    registry = Registry()
    for _ in range(2):
        python.register(registry)
    assert [each.tag for each in registry.resource_initializers()] == ["PYTHON_NODE_RESOURCES"]
    assert {each.__name__ for each in CALCULATORS} <= set(registry.calculators())


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    text = calculator.__doc__ or ""
    example = text[text.index("::\n") + 2 : text.index("Source: OpenVINO")]
    graph = parse_graph_text(example)
    (node,) = graph.node
    graph.input_stream.extend(re.sub(r".*:", "", entry) for entry in node.input_stream)
    python.register(REGISTRY)
    assert validate_graph(graph, registry=REGISTRY).nodes
