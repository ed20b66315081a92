"""Python nodes: `PythonExecutorCalculator` runs handlers written for OpenVINO Model Server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from graphrt_base.errors import GraphError

if TYPE_CHECKING:
    from graph_runtime import Registry

CALCULATOR: Final = "PythonExecutorCalculator"
OPTIONS_TYPE: Final = "mediapipe.PythonExecutorCalculatorOptions"


def handler_paths(config: Any) -> Iterator[str]:
    """The ``handler_path`` of each node of a ``CalculatorGraphConfig``, as it is written."""
    # Imported here: a handler's process imports this package and needs no runtime of graphs.
    from graph_runtime import find_options

    for node in config.node:
        if node.calculator == CALCULATOR:
            try:
                path = find_options(node, OPTIONS_TYPE).handler_path
            except GraphError:  # reported when the graph is loaded
                continue
            if path:
                yield path


def register(registry: Registry) -> None:
    """Add the family's calculators and resource initializer to a registry."""
    from calculators.tensors.python.py_tensor_ov_tensor_converter_calculator import (
        PyTensorOvTensorConverterCalculator,
    )
    from calculators.tensors.python.python_executor_calculator import PythonExecutorCalculator
    from calculators.tensors.python.resources import PythonResourceInitializer

    registry.register_calculator(PythonExecutorCalculator)
    registry.register_calculator(PyTensorOvTensorConverterCalculator)
    registry.register_resource_initializer(PythonResourceInitializer())
