"""Models small enough to be built by the tests that use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as op


def named(node: Any, *names: str) -> Any:
    """Name the output of a node."""
    node.output(0).tensor.set_names(set(names))
    return node


def parameter(name: str, shape: list[int], dtype: Any = np.float32) -> Any:
    return named(op.parameter(openvino.PartialShape(shape), dtype, name=name), name)


def add_model() -> Any:
    """``SUM`` = ``A`` + ``B``; vectors of float32, of any length."""
    a, b = parameter("A", [-1]), parameter("B", [-1])
    return openvino.Model([op.result(named(op.add(a, b), "SUM"))], [a, b], "add")


def add_one_model() -> Any:
    """``Y`` = ``X`` + 1; two numbers of float32."""
    x = parameter("X", [2])
    return openvino.Model([op.result(named(op.add(x, np.float32(1)), "Y"))], [x], "add_one")


def matmul_model() -> Any:
    """``Y`` = ``X`` @ [[1, 2, 3], [4, 5, 6]]; any number of rows."""
    x = parameter("X", [-1, 2])
    weights = op.constant(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    y = named(op.matmul(x, weights, False, False), "Y")
    return openvino.Model([op.result(y)], [x], "matmul")


def sum_and_difference_model() -> Any:
    """``SUM`` and ``DIFFERENCE`` of ``A`` and ``B``; two numbers of int32 each."""
    a, b = parameter("A", [2], np.int32), parameter("B", [2], np.int32)
    results = [
        op.result(named(op.add(a, b), "SUM")),
        op.result(named(op.subtract(a, b), "DIFFERENCE")),
    ]
    return openvino.Model(results, [a, b], "sum_and_difference")


def identity_model(dtype: Any, shape: list[int]) -> Any:
    """Build ``SAME`` = ``X``, with an operation so that there is something to compute."""
    x = parameter("X", shape, dtype)
    same = op.reshape(x, op.shape_of(x), special_zero=False)
    return openvino.Model([op.result(named(same, "SAME"))], [x], "identity")


def calling_model(on_run: Callable[[], object]) -> Any:
    """Build ``Y`` = ``X``, two numbers of float32; an inference calls ``on_run`` in its thread."""

    class Calling(openvino.Op):  # type: ignore[misc]
        def __init__(self, inputs: Any = None) -> None:
            super().__init__(self, inputs)

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def clone_with_new_inputs(self, new_inputs: Any) -> Any:
            return Calling(new_inputs)

        def has_evaluate(self) -> bool:
            return True

        def evaluate(self, outputs: Any, inputs: Any) -> bool:
            on_run()
            inputs[0].copy_to(outputs[0])
            return True

    x = parameter("X", [2])
    return openvino.Model([op.result(named(Calling([x]), "Y"))], [x], "calling")


def compiled(model: Any, **config: Any) -> Any:
    return openvino.Core().compile_model(model, "CPU", config)


def save(model: Any, file: Path) -> None:
    """Write the model as OpenVINO's two files."""
    file.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, file, compress_to_fp16=False)
