"""Inputs and outputs of a model, by the node's tags and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest

from graph_runtime import RunError
from tests.calculators.tensors.openvino.given_models import GivenModels
from tests.calculators.tensors.openvino.graphs import run, session_and_inference, tensor_names
from tests.calculators.tensors.openvino.tiny_models import (
    add_model,
    add_one_model,
    identity_model,
    matmul_model,
    sum_and_difference_model,
)

MAPS = " ".join(
    [
        tensor_names("tag_to_input_tensor_names", OVTENSOR1="A", OVTENSOR2="B"),
        tensor_names("tag_to_output_tensor_names", OVTENSOR1="DIFFERENCE", OVTENSOR2="SUM"),
    ]
)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("on_loop", [False, True], ids=["no loop", "event loop"])
def test_maps_choose_the_tensor_of_a_tag(on_loop: bool) -> None:
    text = session_and_inference(
        "sum_and_difference",
        ["OVTENSOR1:left", "OVTENSOR2:right"],
        ["OVTENSOR1:less", "OVTENSOR2:more"],
        MAPS,
    )
    feed = [
        ("left", ints(5, 6), 0),
        ("right", ints(1, 2), 0),
        ("left", ints(0, 0), 7),
        ("right", ints(3, 4), 7),
    ]
    outputs = run(text, feed, GivenModels(sum_and_difference_model()), on_loop=on_loop)
    assert [value.tolist() for value in outputs["less"]] == [[4, 4], [-3, -4]]
    assert [value.tolist() for value in outputs["more"]] == [[6, 8], [3, 4]]


@pytest.mark.parametrize(
    "tag", ["OVTENSORS", "OVTENSORS2", "TENSORS", "TFTENSORS", "TFLITE_TENSORS2"]
)
def test_order_lists_set_the_order_of_lists(tag: str) -> None:
    text = session_and_inference(
        "sum_and_difference",
        [f"{tag}:pair"],
        [f"{tag}:results"],
        'input_order_list: ["B", "A"] output_order_list: ["DIFFERENCE", "SUM"]',
    )
    feed = [("pair", [ints(1, 2), ints(5, 6)], 0)]
    [results] = run(text, feed, GivenModels(sum_and_difference_model()))["results"]
    assert [each.tolist() for each in results] == [[4, 4], [6, 8]]


def test_a_list_without_an_order_has_all_outputs_in_the_models_order() -> None:
    text = session_and_inference("sum_and_difference", ["A:left", "B:right"], ["OVTENSORS:results"])
    feed = [("left", ints(5, 6), 0), ("right", ints(1, 2), 0)]
    [results] = run(text, feed, GivenModels(sum_and_difference_model()))["results"]
    assert [each.tolist() for each in results] == [[6, 8], [4, 4]]


@pytest.mark.parametrize(
    ("into", "out"),
    [("", ""), ("X:", "Y:"), ("OVTENSOR:", "OVTENSOR:"), ("TENSOR:", "TFTENSOR:"), ("IN:", "OUT:")],
)
def test_the_only_stream_carries_the_only_tensor(into: str, out: str) -> None:
    text = session_and_inference("add_one", [f"{into}in"], [f"{out}out"])
    [value] = run(text, [("in", floats(1, 2), 0)], GivenModels(add_one_model()))["out"]
    assert value.tolist() == [2, 3]
    assert value.dtype == np.float32


def test_a_list_of_the_only_tensor_needs_no_order() -> None:
    text = session_and_inference("add_one", ["OVTENSORS:in"], ["OVTENSORS:out"])
    [[value]] = run(text, [("in", [floats(1, 2)], 0)], GivenModels(add_one_model()))["out"]
    assert value.tolist() == [2, 3]


def test_shapes_that_the_model_leaves_open_may_change_from_packet_to_packet() -> None:
    text = session_and_inference("matmul", ["X:in"], ["Y:out"])
    rows = [1, 3, 0, 2]
    feed = [("in", np.ones((count, 2), np.float32), time) for time, count in enumerate(rows)]
    values = run(text, feed, GivenModels(matmul_model()))["out"]
    assert [value.shape for value in values] == [(count, 3) for count in rows]
    assert values[1].tolist() == [[5, 7, 9]] * 3


INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float16", "float32", "float64"])
def test_every_element_type_keeps_its_values(dtype: str) -> None:
    text = session_and_inference("identity", ["X:in"], ["SAME:out"])
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    [value] = run(text, [("in", array, 0)], GivenModels(identity_model(array.dtype, [3, -1])))[
        "out"
    ]
    assert value.dtype == array.dtype
    assert value.tolist() == array.tolist()


def test_an_array_of_bf16_holds_its_bits() -> None:
    text = session_and_inference("identity", ["X:in"], ["SAME:out"])
    bits = np.array([0x3F80, 0xC000, 1], np.uint16)
    models = GivenModels(identity_model(openvino.Type.bf16, [3]))
    [value] = run(text, [("in", bits, 0)], models)["out"]
    assert value.dtype == np.uint16
    assert value.tolist() == bits.tolist()
    with pytest.raises(RunError, match=r"float16, uint16 \(the bits of bf16\) is expected"):
        run(text, [("in", np.ones(3, np.float16), 0)], models)


def test_arrays_may_be_views_and_read_only() -> None:
    text = session_and_inference("matmul", ["X:in"], ["Y:out"])
    turned = np.array([[1, 0, 2], [0, 1, 2]], np.float32).T
    packed = np.zeros(3, np.dtype([("skip", "u1"), ("pair", "f4", 2)]))["pair"]
    fixed = np.frombuffer(floats(1, 1).tobytes(), np.float32).reshape(1, 2)
    feed = [("in", turned, 0), ("in", packed, 1), ("in", fixed, 2)]
    values = run(text, feed, GivenModels(matmul_model()))["out"]
    assert [value.tolist() for value in values] == [
        [[1, 2, 3], [4, 5, 6], [10, 14, 18]],
        [[0, 0, 0]] * 3,
        [[5, 7, 9]],
    ]


def test_models_can_be_chained() -> None:
    text = """
    input_stream: "in1"
    input_stream: "in2"
    output_stream: "out"
    node {
      calculator: "OpenVINOModelServerSessionCalculator"
      output_side_packet: "SESSION:first"
      node_options: {
        [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
          servable_name: "add_one"
          servable_version: "1"
        }
      }
    }
    node {
      calculator: "OpenVINOModelServerSessionCalculator"
      output_side_packet: "SESSION:second"
      options: {
        [mediapipe.OpenVINOModelServerSessionCalculatorOptions.ext]: { servable_name: "add" }
      }
    }
    node {
      calculator: "OpenVINOInferenceCalculator"
      input_side_packet: "SESSION:first"
      input_stream: "FIRST_IN:in1"
      output_stream: "FIRST_OUT:between"
      node_options: {
        [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
          tag_to_input_tensor_names { key: "FIRST_IN" value: "X" }
          tag_to_output_tensor_names { key: "FIRST_OUT" value: "Y" }
        }
      }
    }
    node {
      calculator: "OpenVINOInferenceCalculator"
      input_side_packet: "SESSION:second"
      input_stream: "ADD_INPUT1:between"
      input_stream: "ADD_INPUT2:in2"
      output_stream: "SUM:out"
      options: {
        [mediapipe.OpenVINOInferenceCalculatorOptions.ext]: {
          tag_to_input_tensor_names { key: "ADD_INPUT1" value: "A" }
          tag_to_input_tensor_names { key: "ADD_INPUT2" value: "B" }
          tag_to_output_tensor_names { key: "SUM" value: "SUM" }
        }
      }
    }
    """
    feed = [("in1", floats(1, 2), 0), ("in2", floats(10, 20), 0)]
    [value] = run(text, feed, GivenModels(add_one_model(), add_model()))["out"]
    assert value.tolist() == [12, 23]
