"""Tags and options that contradict each other or the model."""

from __future__ import annotations

import re

import pytest

from graph_runtime import GraphError, RunError, ValidationError, parse_graph_text, validate_graph
from tests.calculators.tensors.openvino.given_models import GivenModels
from tests.calculators.tensors.openvino.graphs import (
    registry,
    run,
    session_and_inference,
    tensor_names,
)
from tests.calculators.tensors.openvino.tiny_models import sum_and_difference_model

REFUSED = {
    "map and list of inputs": (
        ["OVTENSORS:in"],
        ["OVTENSOR:out"],
        tensor_names("tag_to_input_tensor_names", OVTENSORS="A") + ' input_order_list: "A"',
        "tag_to_input_tensor_names and input_order_list exclude each other",
    ),
    "map and list of outputs": (
        ["OVTENSOR:in"],
        ["OVTENSORS:out"],
        tensor_names("tag_to_output_tensor_names", OVTENSORS="A") + ' output_order_list: "A"',
        "tag_to_output_tensor_names and output_order_list exclude each other",
    ),
    "an order without a list": (
        ["OVTENSOR:in"],
        ["OVTENSOR:out"],
        'input_order_list: "A"',
        "input_order_list is for streams that hold lists, with a tag such as OVTENSORS; the input "
        "streams have the tags OVTENSOR",
    ),
    "a name twice in an order": (
        ["OVTENSORS:in"],
        ["OVTENSOR:out"],
        'input_order_list: ["A", "B", "A"]',
        'input_order_list: "A" is there twice',
    ),
    "a key without a stream": (
        ["LEFT:in"],
        ["OVTENSOR:out"],
        tensor_names("tag_to_input_tensor_names", LEFTT="A"),
        'tag_to_input_tensor_names: no input stream has the tag "LEFTT"; there are LEFT. Did you '
        'mean "LEFT"?',
    ),
    "one tag twice": (
        ["OVTENSOR:0:in", "OVTENSOR:1:other"],
        ["OVTENSOR:out"],
        "",
        'two input streams have the tag "OVTENSOR"; each needs its own, such as OVTENSOR1',
    ),
    "no outputs": (["OVTENSOR:in"], [], "", "it needs an output stream for tensors"),
    "no inputs": ([], ["OVTENSOR:out"], "", "it needs an input stream for tensors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_validation_refuses_contradictions(case: str) -> None:
    inputs, outputs, options, message = REFUSED[case]
    text = session_and_inference("any", inputs, outputs, options)
    with pytest.raises(ValidationError, match=re.escape(message)):
        validate_graph(parse_graph_text(text), registry=registry())


def test_a_node_needs_a_session() -> None:
    text = session_and_inference("any", ["in"], ["out"])
    text = text.replace('input_side_packet: "SESSION:session"', "")
    with pytest.raises(ValidationError, match="SESSION"):
        validate_graph(parse_graph_text(text), registry=registry())


def test_an_unused_key_is_accepted_beside_a_tag_of_its_kind() -> None:
    """OpenVINO Model Server accepts such graphs."""
    options = tensor_names("tag_to_output_tensor_names", OVTENSOR="SUM", OVTENSOR9="DIFFERENCE")
    text = session_and_inference("any", ["OVTENSOR:in"], ["OVTENSOR:out"], options)
    assert validate_graph(parse_graph_text(text), registry=registry()).nodes


UNKNOWN_TO_THE_MODEL = {
    "a mapped input": (
        ["OVTENSOR:in", "B:other"],
        ["SUM:out"],
        tensor_names("tag_to_input_tensor_names", OVTENSOR="AA"),
        'it has no input "AA", which tag_to_input_tensor_names names; it has "A", "B". Did you '
        'mean "A"?',
    ),
    "a listed output": (
        ["A:in", "B:other"],
        ["OVTENSORS:out"],
        'output_order_list: ["SUM", "PRODUCT"]',
        'it has no output "PRODUCT", which output_order_list names; it has "SUM", "DIFFERENCE".',
    ),
    "an input that nothing feeds": (
        ["A:in"],
        ["SUM:out"],
        "",
        'no stream feeds its input "B"; tag_to_input_tensor_names says which does',
    ),
    "an input that is fed twice": (
        ["A:in", "OVTENSOR:other"],
        ["SUM:out"],
        tensor_names("tag_to_input_tensor_names", OVTENSOR="A"),
        'two streams feed its input "A"',
    ),
    "a tag that says nothing": (
        ["A:in", "B:other"],
        ["OVTENSOR:out"],
        "",
        'which of its outputs the output stream with the tag "OVTENSOR" carries is not said; it '
        'has "SUM", "DIFFERENCE": say it in tag_to_output_tensor_names',
    ),
    "a list without an order": (
        ["OVTENSORS:in"],
        ["SUM:out"],
        "",
        'which of its inputs the input stream with the tag "OVTENSORS" carries is not said; it '
        'has "A", "B": say it in input_order_list',
    ),
}


@pytest.mark.parametrize("case", UNKNOWN_TO_THE_MODEL)
def test_the_run_does_not_start_when_the_model_has_other_tensors(case: str) -> None:
    inputs, outputs, options, message = UNKNOWN_TO_THE_MODEL[case]
    text = session_and_inference("sum_and_difference", inputs, outputs, options)
    with pytest.raises(GraphError) as caught:
        run(text, [], GivenModels(sum_and_difference_model()))
    assert isinstance(caught.value, RunError)
    assert f'the model "sum_and_difference": {message}' in str(caught.value)
