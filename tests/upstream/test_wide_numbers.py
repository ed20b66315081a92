"""openvino 2026.4: the CPU plugin computes types of 64 bits in 32 bits, and reports nothing.

`calculators.tensors.openvino.model.TensorSpec.span` has the numbers that it takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from tests.calculators.tensors.openvino.tiny_models import parameter


def computed_by_cpu(element_type: str, numbers: Any) -> list[Any]:
    """Return the numbers, each multiplied by 1, as the CPU plugin gives them."""
    array = np.array(numbers, element_type)
    x = parameter("X", [len(array)], openvino.Type(array.dtype))
    model = openvino.Model([op.result(op.multiply(x, np.ones(1, array.dtype)))], [x], "model")
    core = openvino.Core()
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    request.infer([array])
    result: list[Any] = request.get_output_tensor().data.tolist()
    return result


@pytest.mark.parametrize(
    ("element_type", "numbers", "computed"),
    [
        ("int64", [5_000_000_000, 2**31], [705_032_704, -(2**31)]),
        ("uint64", [5_000_000_000, 2**32 - 1], [705_032_704, 2**64 - 1]),
        ("float64", [1e300, np.inf], [float(np.finfo(np.float32).max)] * 2),
    ],
)
def test_the_cpu_gives_other_numbers_without_an_error(
    element_type: str, numbers: list[Any], computed: list[Any]
) -> None:
    assert computed_by_cpu(element_type, numbers) == computed


@pytest.mark.parametrize(
    ("element_type", "numbers"),
    [
        ("int64", [-(2**31), 2**31 - 1]),
        ("uint64", [0, 2**31 - 1]),
        ("uint32", [2**32 - 1]),
        ("float64", [float(np.finfo(np.float32).max), -0.5]),
    ],
)
def test_the_cpu_takes_these_numbers(element_type: str, numbers: list[Any]) -> None:
    assert computed_by_cpu(element_type, numbers) == numbers
