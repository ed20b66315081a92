"""Responses become bodies that a client of the protocol can decode."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferResponse,
    Parameter,
    Tensor,
    strings,
)
from servers.fronts.http.body import parse_json
from servers.fronts.kserve_rest.inference_codec import RestResponse, encode_response
from servers.fronts.kserve_rest.json_tensors import BinaryOutputs
from tests.calculators.tensors.inference.tensors import PARAMETERS, named, same, tensors
from tests.servers.fronts.kserve_rest.bodies import read, tensors_of

BINARY = BinaryOutputs(default=True)


def head_of(response: RestResponse) -> Any:
    """Return the JSON, as a strict client parses it."""
    return parse_json(response.head, max_depth=10, max_elements=100_000)


def response_of(*outputs: Tensor) -> InferResponse:
    return InferResponse("m", "1", "i", {}, outputs)


def as_request(response: RestResponse) -> tuple[Tensor, ...]:
    """Return the outputs, decoded as if they were the inputs of a request."""
    value = head_of(response)
    body = json.dumps({"inputs": value["outputs"]}).encode()
    tail = b"".join(response.tensors or ())
    return tensors_of(read(body + tail, str(len(body))))


@given(st.lists(tensors(), max_size=3).map(named))
def test_every_response_can_be_decoded_from_binary(outputs: tuple[Tensor, ...]) -> None:
    response = encode_response(response_of(*outputs), BINARY)

    read_back = as_request(response)

    assert len(read_back) == len(outputs)
    assert all(map(same, read_back, outputs))
    assert response.joined() == response.head + b"".join(response.tensors or ())
    assert response.size == len(response.joined())


@given(tensors())
def test_every_response_can_be_decoded_from_json_or_is_refused(tensor: Tensor) -> None:
    try:
        response = encode_response(response_of(tensor), BinaryOutputs())
    except RequestError as refusal:
        text = refusal.message
    else:
        assert response.tensors is None
        assert all(map(same, as_request(response), [tensor]))
        return
    assert text.startswith('the output "x" cannot be expressed in JSON: ')


@given(PARAMETERS)
def test_parameters_can_be_decoded(parameters: dict[str, Parameter]) -> None:
    tensor = Tensor("y", Datatype.INT8, np.zeros(1, "<i1"), parameters)
    response = InferResponse("m", "", "", parameters, (tensor,))

    value = head_of(encode_response(response, BinaryOutputs()))

    assert value.get("parameters", {}) == parameters
    assert value["outputs"][0].get("parameters", {}) == parameters


def test_a_response_in_json_has_the_protocols_form() -> None:
    tensor = Tensor.of("y", np.array([[1, 2], [3, 4]], np.uint8))

    response = encode_response(response_of(tensor), BinaryOutputs())

    assert response.headers == {"Content-Type": "application/json"}
    assert json.loads(response.joined()) == {
        "model_name": "m",
        "model_version": "1",
        "id": "i",
        "outputs": [{"name": "y", "shape": [2, 2], "datatype": "UINT8", "data": [1, 2, 3, 4]}],
    }


def test_a_response_has_no_members_for_missing_values() -> None:
    response = encode_response(InferResponse("m"), BinaryOutputs())

    assert json.loads(response.head) == {"model_name": "m", "outputs": []}


def test_outputs_may_be_in_json_and_in_binary() -> None:
    one, two = Tensor.of("é", np.array(["a"])), Tensor.of("z", np.array([1, 2], np.int16))

    response = encode_response(response_of(one, two), BinaryOutputs(by_name={"z": True}))

    assert response.tensors is not None
    assert b"".join(response.tensors) == b"\x01\0\x02\0"
    assert response.headers == {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(response.head)),
    }
    assert json.loads(response.head)["outputs"] == [
        {"name": "é", "shape": [1], "datatype": "BYTES", "data": ["a"]},
        {
            "name": "z",
            "shape": [2],
            "datatype": "INT16",
            "parameters": {"binary_data_size": 4},
        },
    ]


def test_a_tensor_of_a_custom_datatype_is_passed_on() -> None:
    tensor = CustomTensor("y", "my_type", (7, 2), memoryview(b"abc"), {"p": 1})
    response = InferResponse("m", "", "", {}, (tensor,))

    encoded = encode_response(response, BINARY)

    assert encoded.tensors == (b"abc",)
    assert head_of(encoded)["outputs"] == [
        {
            "name": "y",
            "shape": [7, 2],
            "datatype": "my_type",
            "parameters": {"p": 1, "binary_data_size": 3},
        }
    ]
    with pytest.raises(RequestError, match="my_type has no form in JSON"):
        encode_response(response, BinaryOutputs())


def test_an_empty_tensor_in_binary_has_the_header() -> None:
    response = encode_response(response_of(Tensor.of("y", np.zeros((0, 2)))), BINARY)

    assert response.headers["Inference-Header-Content-Length"] == str(response.size)


def test_a_large_tensor_is_not_copied() -> None:
    data = np.zeros(1000, "<f4")

    response = encode_response(response_of(Tensor("y", Datatype.FP32, data)), BINARY)

    assert response.tensors is not None
    assert np.shares_memory(np.frombuffer(response.tensors[0], np.uint8), data)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (Tensor("y", Datatype.FP32, np.array([np.nan], "<f4")), "infinite or not a number"),
        (Tensor("y", Datatype.FP64, np.array([-np.inf])), "infinite or not a number"),
        (Tensor("y", Datatype.BF16, np.zeros(1, "<u2")), "BF16 has no form in JSON"),
        (Tensor("y", Datatype.BYTES, strings([b"\xff"], (1,))), "an element is not UTF-8"),
    ],
)
def test_tensors_that_json_cannot_represent_are_refused(tensor: Tensor, reason: str) -> None:
    with pytest.raises(RequestError) as caught:
        encode_response(response_of(tensor), BinaryOutputs())
    assert caught.value.message.startswith('the output "y" cannot be expressed in JSON: ')
    assert reason in caught.value.message
    assert caught.value.message.endswith("; infer it with the parameter binary_data")
    assert encode_response(response_of(tensor), BINARY).tensors is not None
