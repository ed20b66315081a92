"""``ModelInferRequest`` -> `InferRequest`, and `InferResponse` -> ``ModelInferResponse``.

How often a tensor is copied: from ``raw_input_contents`` once, by protobuf, which makes a ``bytes``
of its part of the message; the array is a view of that. Into ``raw_output_contents`` twice: into a
``bytes``, which is all that protobuf takes, and from there into the message.
"""

from __future__ import annotations

from typing import Any

from calculators.http_payload import RequestError
from protos.pool import message_class
from servers.inference import Datatype, InferRequest, InferResponse, RequestedOutput, Tensor
from servers.inference.parameter import refuse_shared_memory
from servers.inference.place import place_of
from servers.inference.raw_data import from_raw, to_raw
from servers.inference.shape import checked_shape
from servers.kserve_grpc.parameter_map import decode_parameters, encode_parameters
from servers.kserve_grpc.typed_contents import from_contents, is_empty


def decode_request(message: Any) -> InferRequest:
    """The request in a ``ModelInferRequest`` message.

    Raises:
        RequestError: it cannot be one; the text names the tensor and the reason.
    """
    raws = list(message.raw_input_contents)
    if raws:
        _check_raw(message, len(raws))
    inputs = [
        _decode_input(tensor, place_of("inputs", index, tensor.name), raws[index] if raws else None)
        for index, tensor in enumerate(message.inputs)
    ]
    return InferRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        parameters=decode_parameters(message.parameters, "the request"),
        inputs=tuple(inputs),
        requested_outputs=tuple(
            _decode_output(output, place_of("outputs", index, output.name))
            for index, output in enumerate(message.outputs)
        ),
    )


def encode_response(response: InferResponse) -> Any:
    """The ``ModelInferResponse`` message of a response; its tensors are raw."""
    message: Any = message_class("inference.ModelInferResponse")()
    _fill_response(response, message)
    return message


def encode_stream_response(response: InferResponse) -> Any:
    """The ``ModelStreamInferResponse`` message of a response."""
    message: Any = message_class("inference.ModelStreamInferResponse")()
    _fill_response(response, message.infer_response)
    return message


def encode_stream_error(text: str, request_id: str = "") -> Any:
    """The ``ModelStreamInferResponse`` message of an error after which the stream goes on.

    ``request_id`` tells the client which of its requests failed.
    """
    message: Any = message_class("inference.ModelStreamInferResponse")(error_message=text)
    if request_id:
        message.infer_response.id = request_id
    return message


def _check_raw(message: Any, count: int) -> None:
    if count != len(message.inputs):
        raise RequestError(
            f"raw_input_contents has {count} parts for {len(message.inputs)} inputs; it must have"
            " one for each"
        )
    for index, tensor in enumerate(message.inputs):
        if tensor.HasField("contents") and not is_empty(tensor.contents):
            raise RequestError(
                f"{place_of('inputs', index, tensor.name)}: data both in contents and in"
                " raw_input_contents is not allowed"
            )


def _decode_input(tensor: Any, place: str, raw: bytes | None) -> Tensor:
    parameters = decode_parameters(tensor.parameters, place)
    refuse_shared_memory(parameters, place)
    datatype = Datatype.named(tensor.datatype, place)
    shape = checked_shape(tensor.shape, place)
    if raw is not None:
        data = from_raw(datatype, shape, raw, place)
    else:
        data = from_contents(datatype, shape, tensor.contents, place)
    return Tensor(tensor.name, datatype, data, parameters)


def _decode_output(output: Any, place: str) -> RequestedOutput:
    parameters = decode_parameters(output.parameters, place)
    refuse_shared_memory(parameters, place)
    return RequestedOutput(output.name, parameters)


def _fill_response(response: InferResponse, message: Any) -> None:
    message.model_name = response.model
    message.model_version = response.version
    message.id = response.id
    encode_parameters(response.parameters, message.parameters)
    for tensor in response.outputs:
        output = message.outputs.add(
            name=tensor.name, datatype=tensor.datatype.value, shape=tensor.shape
        )
        encode_parameters(tensor.parameters, output.parameters)
        message.raw_output_contents.append(bytes(to_raw(tensor)))
