"""`PyTensorOvTensorConverterCalculator`, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calculators.tensors.python.pyovms import Tensor
from graph_runtime import (
    CalculatorGraph,
    Code,
    RunError,
    ValidationError,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.tensors.python.running import registry

TO_ARRAY = """
input_stream: "in"
output_stream: "out"
node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVMS_PY_TENSOR:in"
  output_stream: "OVTENSOR:out"
}
"""
TO_TENSOR = """
input_stream: "in"
output_stream: "out"
node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVTENSOR:in"
  output_stream: "OVMS_PY_TENSOR:out"
  node_options {
    [type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {
      tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "scores" }
    }
  }
}
"""


def converted(graph_text: str, value: Any) -> Any:
    found: list[tuple[int, Any]] = []
    with CalculatorGraph(text_config=graph_text, registry=registry()) as graph:
        graph.observe_output_stream("out", lambda _, packet: found.append((packet.time, packet)))
        graph.start_run()
        graph.add_packet_to_input_stream("in", value, 5)
    ((time, packet),) = found
    assert time == 5
    return packet.value


def test_a_tensor_becomes_an_array_of_the_same_data() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = converted(TO_ARRAY, Tensor("x", data))
    assert (type(array), array.dtype, array.tolist()) == (np.ndarray, np.float32, data.tolist())
    assert np.shares_memory(array, data)


def test_the_array_has_the_type_and_shape_that_the_tensor_says() -> None:
    raw = np.array([1, -1, 300], np.int16).tobytes()
    array = converted(TO_ARRAY, Tensor("x", raw, (3, 1), "INT16"))
    assert (array.dtype, array.tolist()) == (np.int16, [[1], [-1], [300]])


def test_an_array_becomes_a_tensor_with_the_name_of_the_options() -> None:
    tensor = converted(TO_TENSOR, np.ones((2, 2), np.int64))
    assert isinstance(tensor, Tensor)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("scores", "INT64", (2, 2))


@pytest.mark.parametrize(
    ("graph_text", "value", "told"),
    [
        (TO_ARRAY, Tensor("x", b"abc", [1], "BYTES"), 'tensor "x" of datatype BYTES cannot'),
        (TO_ARRAY, Tensor("x", b"abc", [2], "INT16"), 'tensor "x" has 3 bytes'),
        (TO_ARRAY, Tensor("x", b"", [-1, 0], "INT16"), 'tensor "x" has 0 bytes'),
        (TO_TENSOR, np.array([b"a"], object), 'no tensor "scores" can be made'),
        (TO_TENSOR, np.ones(2, np.complex64), "an array of complex64"),
    ],
)
def test_what_cannot_be_converted_is_named(graph_text: str, value: Any, told: str) -> None:
    with pytest.raises(RunError) as caught:
        converted(graph_text, value)
    assert told in str(caught.value)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("graph_text", "told"),
    [
        (TO_ARRAY.replace("OVTENSOR:", "OTHER:"), "one input and one output"),
        (TO_ARRAY.replace("OVTENSOR:", "OVMS_PY_TENSOR:"), "one input and one output"),
        (TO_TENSOR.replace('key: "OVMS_PY_TENSOR"', 'key: "OTHER"'), "the name of its tensors"),
    ],
)
def test_nodes_that_cannot_work_are_refused(graph_text: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        validate_graph(parse_graph_text(graph_text), registry=registry())
