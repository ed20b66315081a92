"""Responses become ``ModelInferResponse`` messages that a client of the protocol can decode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferResponse,
    Parameter,
    Tensor,
    from_raw,
)
from protos.pool import message_class
from servers.fronts.kserve_grpc.codec import (
    decode_parameters,
    encode_response,
    encode_stream_error,
    encode_stream_response,
)
from tests.calculators.tensors.inference.tensors import PARAMETERS, named, same, tensors


def arrived(content: bytes) -> Any:
    return message_class("inference.ModelInferResponse").FromString(content)


def arrived_in_stream(content: bytes) -> Any:
    return message_class("inference.ModelStreamInferResponse").FromString(content)


@given(st.lists(tensors(), max_size=3).map(named), PARAMETERS)
def test_every_response_can_be_decoded(
    outputs: tuple[Tensor, ...], parameters: dict[str, Parameter]
) -> None:
    message = arrived(encode_response(InferResponse("m", "1", "i", parameters, outputs)))

    assert (message.model_name, message.model_version, message.id) == ("m", "1", "i")
    assert decode_parameters(message.parameters, "") == parameters
    read = [
        Tensor(output.name, datatype, from_raw(datatype, tuple(output.shape), raw, output.name))
        for output, raw in zip(message.outputs, message.raw_output_contents, strict=True)
        for datatype in [Datatype(output.datatype)]
    ]
    assert len(read) == len(outputs)
    assert all(map(same, read, outputs))


def test_parameters_have_the_kinds_of_their_values() -> None:
    parameters: dict[str, Parameter] = {
        "b": True,
        "i": -(2**63),
        "t": 2**63 - 1,
        "u": 2**63,
        "d": 1.0,
        "s": "",
    }
    tensor = Tensor("y", Datatype.FP32, np.zeros((), "<f4"), parameters)

    (output,) = arrived(encode_response(InferResponse("m", outputs=(tensor,)))).outputs

    kinds = {
        name: value.WhichOneof("parameter_choice") for name, value in output.parameters.items()
    }
    assert kinds == {
        "b": "bool_param",
        "i": "int64_param",
        "t": "int64_param",
        "u": "uint64_param",
        "d": "double_param",
        "s": "string_param",
    }


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_an_integer_that_is_too_large_for_a_parameter_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=r'"p" needs more than 64 bits'):
        encode_response(InferResponse("m", parameters={"p": value}))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 100_000])
def test_a_stream_carries_responses(size: int) -> None:
    tensor = Tensor("y", Datatype.UINT8, np.ones(size, np.uint8))
    response = InferResponse("m", "1", "i", {"OVMS_MP_TIMESTAMP": 5}, (tensor,))

    message = arrived_in_stream(encode_stream_response(response))

    assert message.error_message == ""
    assert message.infer_response == arrived(encode_response(response))
    assert message.infer_response.raw_output_contents[0] == bytes([1]) * size


def test_a_stream_carries_errors() -> None:
    bad = arrived_in_stream(encode_stream_error("no such input", "j"))

    assert (bad.error_message, bad.infer_response.id) == ("no such input", "j")
    assert not arrived_in_stream(encode_stream_error("no")).HasField("infer_response")


@pytest.mark.parametrize("data", [b"", b"any"])
def test_a_tensor_of_a_custom_datatype_is_passed_on(data: bytes) -> None:
    tensor = CustomTensor("y", "my.Image", (7, 2), memoryview(data), {"p": "q"})

    message = arrived(encode_response(InferResponse("m", outputs=(tensor,))))

    (output,) = message.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", "my.Image", [7, 2])
    assert decode_parameters(output.parameters, "") == {"p": "q"}
    assert list(message.raw_output_contents) == [data]
