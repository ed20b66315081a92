"""Refused packets: the error names the tensor and what the model expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_runtime import Code, RunError
from tests.calculators.tensors.openvino.given_models import GivenModels
from tests.calculators.tensors.openvino.graphs import run, session_and_inference
from tests.calculators.tensors.openvino.tiny_models import add_model, matmul_model

WRONG: dict[str, tuple[Any, str]] = {
    "element type": (
        np.ones((1, 2)),
        'the model "matmul": tensor "X": the element type is float64, float32 is expected',
    ),
    "byte order": (
        np.ones((1, 2), ">f4"),
        'the model "matmul": tensor "X": the element type is >f4, float32 is expected',
    ),
    "length": (
        np.ones((1, 3), np.float32),
        'the model "matmul": tensor "X": the shape is [1,3], [?,2] is expected',
    ),
    "fewer axes": (
        np.ones(2, np.float32),
        'the model "matmul": tensor "X": the shape is [2], [?,2] is expected',
    ),
    "more axes": (
        np.ones((1, 1, 2), np.float32),
        'the model "matmul": tensor "X": the shape is [1,1,2], [?,2] is expected',
    ),
    "no axes": (
        np.array(1, np.float32),
        'the model "matmul": tensor "X": the shape is [], [?,2] is expected',
    ),
    "no array": ([[1.0, 2.0]], 'stores "vector<vector<float>>", but "ndarray" was requested'),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_tensor_that_does_not_fit_is_refused(case: str) -> None:
    value, message = WRONG[case]
    text = session_and_inference("matmul", ["X:in"], ["Y:out"])
    with pytest.raises(RunError) as caught:
        run(text, [("in", value, 0)], GivenModels(matmul_model()))
    assert message in str(caught.value)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], 'input stream "in" has a list of 0 tensors; 2 are expected: A, B'),
        ([np.ones(2, np.float32)] * 3, "has a list of 3 tensors; 2 are expected: A, B"),
        ([np.ones(2, np.float32), 1], 'input stream "in": tensor "B" is a int, a NumPy array is'),
        ([np.ones(2, np.float32), np.ones(2)], 'tensor "B": the element type is float64, float32'),
    ],
)
def test_a_list_that_does_not_fit_is_refused(value: Any, message: str) -> None:
    text = session_and_inference(
        "add", ["OVTENSORS:in"], ["SUM:out"], 'input_order_list: ["A", "B"]'
    )
    with pytest.raises(RunError) as caught:
        run(text, [("in", value, 0)], GivenModels(add_model()))
    assert message in str(caught.value)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_input_without_a_packet_is_an_error() -> None:
    text = session_and_inference("add", ["A:left", "B:right"], ["SUM:out"])
    with pytest.raises(RunError) as caught:
        run(text, [("left", np.ones(2, np.float32), 3)], GivenModels(add_model()))
    assert (
        'input stream "right" has no packet at this timestamp; inference needs one from every input'
        in str(caught.value)
    )


@pytest.mark.parametrize("on_loop", [False, True], ids=["no loop", "event loop"])
def test_shapes_that_contradict_each_other_fail_in_openvino_with_a_reason(on_loop: bool) -> None:
    text = session_and_inference("add", ["A:left", "B:right"], ["SUM:out"])
    feed = [("left", np.ones(2, np.float32), 0), ("right", np.ones(3, np.float32), 0)]
    with pytest.raises(RunError) as caught:
        run(text, feed, GivenModels(add_model()), on_loop=on_loop)
    message = str(caught.value)
    assert 'the model "add" failed: ' in message
    assert "mismatch" in message
    assert ".cpp" not in message
    assert "Exception" not in message
    assert caught.value.code is Code.INTERNAL
