"""Python nodes: `PythonExecutorCalculator` runs handlers written for OpenVINO Model Server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


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
