"""Registration of the family."""

from __future__ import annotations

import pytest

from calculators.tensors import python
from calculators.tensors.python.py_tensor_ov_tensor_converter_calculator import (
    PyTensorOvTensorConverterCalculator,
)
from calculators.tensors.python.python_executor_calculator import PythonExecutorCalculator
from graph_runtime import REGISTRY, Calculator, Registry, validate_graph
from tests.calculators.docstring_examples import example_graph

CALCULATORS = (PythonExecutorCalculator, PyTensorOvTensorConverterCalculator)


def test_registering_twice_changes_nothing() -> None:
    registry = Registry()
    for _ in range(2):
        python.register(registry)
    assert [each.tag for each in registry.resource_initializers()] == ["PYTHON_NODE_RESOURCES"]
    assert {each.__name__ for each in CALCULATORS} <= set(registry.calculators())


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    assert "Source: OpenVINO" in (calculator.__doc__ or "")
    python.register(REGISTRY)
    assert len(validate_graph(example_graph(calculator), registry=REGISTRY).nodes) == 1
