"""Members of generate requests become tensors and parameters, by the model's metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Tensor,
)
from servers.contract.data_plane import TensorMetadata
from servers.fronts.kserve_rest.generate_codec import decode_generate, encode_generated

ANY = TensorMetadata("x", is_optional=True)


def decode(value: object, *inputs: TensorMetadata) -> InferRequest:
    return decode_generate(value, inputs, model="m", version="3")


def only(request: InferRequest) -> Tensor:
    (tensor,) = request.inputs
    assert isinstance(tensor, Tensor)
    return tensor


def test_all_members_of_a_request_are_decoded() -> None:
    request = decode(
        {
            "id": "7",
            "text_input": "hello",
            "temperature": 0.5,
            "missing": None,
            "parameters": {"max_tokens": 16, "stream": True},
            "optional": None,
        },
        TensorMetadata("text_input", "BYTES", (1,)),
        TensorMetadata("optional", "FP32", (1,), is_optional=True),
    )

    assert (request.model, request.version, request.id) == ("m", "3", "7")
    assert request.parameters == {"temperature": 0.5, "max_tokens": 16, "stream": True}
    assert [tensor.name for tensor in request.inputs] == ["text_input"]
    assert only(request).data.tolist() == [b"hello"]


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        ((), 5, [5]),
        ((), [5, 6], [5, 6]),
        ((), [[5], [6]], [[5], [6]]),
        ((1,), 5, [5]),
        ((-1,), 5, [5]),
        ((-1,), [], []),
        ((-1,), [5, 6], [5, 6]),
        ((-1, 1), 5, [[5]]),
        ((-1, 1), [5, 6], [[5], [6]]),
        ((-1, -1), [5, 6], [[5, 6]]),
        ((-1, 2), [5, 6, 7, 8], [[5, 6], [7, 8]]),
        ((2, -1), [5, 6, 7, 8], [[5, 6], [7, 8]]),
        ((2, 2), [5, 6, 7, 8], [[5, 6], [7, 8]]),
        ((2, 2), [[5, 6], [7, 8]], [[5, 6], [7, 8]]),
        ((-1, 2), [[5, 6]], [[5, 6]]),
        ((-1, 1, 2), [[5, 6]], [[5, 6]]),  # the model decides about that
    ],
)
def test_open_dimensions_follow_from_the_number_of_elements(
    shape: tuple[int, ...], value: Any, expected: Any
) -> None:
    tensor = only(decode({"x": value}, TensorMetadata("x", "INT32", shape)))

    assert tensor.datatype == Datatype.INT32
    assert tensor.data.tolist() == expected


@pytest.mark.parametrize(
    ("value", "datatype"),
    [
        (True, "BOOL"),
        ([True, False], "BOOL"),
        (7, "INT64"),
        ([[1, 2]], "INT64"),
        (0.5, "FP32"),
        ([1, 0.5], "FP32"),
        ("a", "BYTES"),
        ([["a"], ["b"]], "BYTES"),
    ],
)
def test_without_metadata_the_json_determines_the_tensor(value: Any, datatype: str) -> None:
    tensor = only(decode({"x": value}, TensorMetadata("x")))

    assert tensor.datatype == datatype
    assert tensor.shape == (np.array(value).shape or (1,))


@pytest.mark.parametrize("value", ["mine", 7])
def test_an_input_may_have_any_name(value: Any) -> None:
    request = decode({"id": value, "parameters": value}, *map(TensorMetadata, ["id", "parameters"]))

    assert (request.id, request.parameters) == ("", {})
    assert [tensor.name for tensor in request.inputs] == ["id", "parameters"]


@pytest.mark.parametrize(
    ("value", "metadata", "text"),
    [
        ({"x": "a"}, TensorMetadata("x", "FP32", (1,)), 'the input "x": data[0] is a string'),
        ({"x": {}}, TensorMetadata("x", "FP32", (1,)), 'the input "x": data[0] is an object'),
        ({"x": [1, 2]}, TensorMetadata("x", "FP32", (1, 1)), "the shape [1, 1] has 1 elements,"),
        (
            {"x": [1, 2, 3]},
            TensorMetadata("x", "FP32", (-1, 2)),
            'the input "x" has 3 elements, which do not fill the shape [-1, 2]',
        ),
        ({"x": [1]}, TensorMetadata("x", "FP32", (-1, 0)), "which do not fill the shape [-1, 0]"),
        ({"x": [[1], 2]}, TensorMetadata("x", "FP32", (-1, 1)), "data[1] is an integer; the"),
        ({"x": [[1], [2, 3]]}, TensorMetadata("x"), "data[1] has 2 elements; the shape [2, 1]"),
        ({"x": [1, [2]]}, TensorMetadata("x"), 'the input "x" has an array and an integer; it'),
        ({"x": [1, "a"]}, TensorMetadata("x"), 'the input "x" has a string and an integer; it'),
        ({"x": []}, TensorMetadata("x"), 'the input "x" has no element; it must be all true'),
        ({"x": {"a": 1}}, TensorMetadata("x"), 'the input "x" has an object; it must be all'),
        ({"x": 1e39}, TensorMetadata("x"), "data[0] is out of the range of FP32"),
        ({"x": 2**70}, TensorMetadata("x"), "data[0] is out of range: INT64 goes from"),
        ({"x": 1}, TensorMetadata("x", "mine", (1,)), 'unknown datatype "mine"'),
        ({"y": []}, ANY, 'the parameter "y" is an array; it must be a string'),
        ({"y": 2**64}, ANY, 'the parameter "y" needs more than 64 bits'),
        ({"parameters": 1}, ANY, "parameters must be an object, not an integer"),
        ({"y": 1, "parameters": {"y": 1}}, ANY, 'the parameter "y" is there twice'),
        ({"id": 1}, ANY, "id must be a string, not an integer"),
        ({"y": 1}, TensorMetadata("x"), 'the input "x" is missing'),
        ({"x": None}, TensorMetadata("x"), 'the input "x" is missing'),
        ("x", TensorMetadata("x"), "the body must be a JSON object, not a string"),
    ],
)
def test_members_that_do_not_fit_the_metadata_are_refused(
    value: object, metadata: TensorMetadata, text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        decode(value, metadata)
    assert text in caught.value.message


def test_deep_arrays_are_refused() -> None:
    value: Any = 1
    for _ in range(99):
        value = [value]

    with pytest.raises(RequestError, match="the shape has 99 dimensions"):
        decode({"x": value}, TensorMetadata("x"))


def test_an_answer_has_single_values_and_arrays() -> None:
    outputs = (
        Tensor.of("one", np.array([[0.5]], np.float32)),
        Tensor.of("many", np.array([[1, 2], [3, 4]])),
        Tensor.of("none", np.zeros(0)),
        Tensor.of("text", np.array(["é"])),
    )

    body = encode_generated(InferResponse("m", "1", "i", {"sequence_end": False}, outputs))

    assert json.loads(body) == {
        "model_name": "m",
        "model_version": "1",
        "id": "i",
        "sequence_end": False,
        "one": 0.5,
        "many": [1, 2, 3, 4],
        "none": [],
        "text": "é",
    }


def test_an_answer_has_no_members_for_missing_values() -> None:
    assert json.loads(encode_generated(InferResponse("m"))) == {"model_name": "m"}


def test_a_custom_datatype_has_no_form_in_json() -> None:
    tensor = CustomTensor("x", "mine", (1,), memoryview(b"a"))

    with pytest.raises(RequestError, match='"x" cannot be expressed in JSON: mine has no'):
        encode_generated(InferResponse("m", outputs=(tensor,)))
