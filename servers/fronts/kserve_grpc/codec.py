"""``ModelInferRequest`` -> `InferRequest`, and `InferResponse` -> ``ModelInferResponse``, as bytes.

A tensor of a request is not copied: its array is a view of the message, unless that is not aligned.
A tensor of a response is copied once, into the message.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from calculators.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    RequestedOutput,
    Tensor,
)
from calculators.inference.parameter import refuse_shared_memory
from calculators.inference.place import place_of
from calculators.inference.raw_data import tensor_from_raw, to_raw
from calculators.inference.shape import checked_shape
from calculators.requests.http_payload import RequestError
from protos.pool import message_class
from servers.fronts.kserve_grpc.parameter_map import decode_parameters, encode_parameters
from servers.fronts.kserve_grpc.typed_contents import from_contents, is_empty
from servers.fronts.kserve_grpc.wire import head, split

MAX_PARSED_BYTES: Final = 8 * 1024 * 1024
"""Limit of a request without its raw tensors. Parsed, some bytes take 40 times their size."""

# Field numbers.
_RAW_INPUTS: Final = 7
_RAW_OUTPUTS: Final = 6
_INFER_RESPONSE: Final = 2


def decode_request(data: bytes, max_parsed_bytes: int = MAX_PARSED_BYTES) -> InferRequest:
    """Decode a ``ModelInferRequest`` message.

    Raises:
        RequestError: the message is invalid; the text names the tensor and the reason.
    """
    parsed, raws = split(data, _RAW_INPUTS)
    if len(parsed) > max_parsed_bytes:
        raise RequestError(
            f"the request has {len(parsed)} bytes besides raw_input_contents; at most"
            f" {max_parsed_bytes} can be"
        )
    try:
        message: Any = _message_class("ModelInferRequest").FromString(parsed)
    except DecodeError as error:
        raise RequestError("the request is not a ModelInferRequest message") from error
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


def request_id(data: bytes) -> str:
    """Return the id of a request that `decode_request` refused; "" if it cannot be found."""
    try:
        parsed, _ = split(data, _RAW_INPUTS)
        # Larger messages are not parsed.
        if len(parsed) > MAX_PARSED_BYTES:
            return ""
        return str(_message_class("ModelInferRequest").FromString(parsed).id)
    except (RequestError, DecodeError):
        return ""


def encode_response(response: InferResponse) -> bytes:
    """Encode a ``ModelInferResponse`` message with raw tensors.

    Raises:
        ValueError: a parameter needs more than 64 bits.
    """
    return b"".join(_pieces(response))


def encode_stream_response(response: InferResponse) -> bytes:
    """Encode a ``ModelStreamInferResponse`` message with a response.

    Raises:
        ValueError: as `encode_response`.
    """
    pieces = _pieces(response)
    return b"".join(
        [head(_INFER_RESPONSE, sum(memoryview(each).nbytes for each in pieces)), *pieces]
    )


def encode_stream_error(text: str, request_id: str = "") -> bytes:
    """Encode a ``ModelStreamInferResponse`` message with an error that does not end the stream.

    ``request_id``: the request that failed.
    """
    message: Any = _message_class("ModelStreamInferResponse")(error_message=text)
    if request_id:
        message.infer_response.id = request_id
    return bytes(message.SerializeToString())


@cache
def _message_class(name: str) -> Any:
    return message_class(f"inference.{name}")


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


def _decode_input(tensor: Any, place: str, raw: memoryview | None) -> Tensor | CustomTensor:
    parameters = decode_parameters(tensor.parameters, place)
    refuse_shared_memory(parameters, place)
    name: str = tensor.datatype
    shape = checked_shape(tensor.shape, place)
    if raw is not None and name and name not in Datatype.__members__:
        return CustomTensor(tensor.name, name, shape, raw, parameters)
    datatype = Datatype.named(name, place)
    if raw is not None:
        return tensor_from_raw(tensor.name, datatype, shape, raw, parameters, place)
    data = from_contents(datatype, shape, tensor.contents, place)
    return Tensor(tensor.name, datatype, data, parameters)


def _decode_output(output: Any, place: str) -> RequestedOutput:
    parameters = decode_parameters(output.parameters, place)
    refuse_shared_memory(parameters, place)
    return RequestedOutput(output.name, parameters)


def _pieces(response: InferResponse) -> list[bytes | memoryview]:
    """Return the message in pieces, which saves a copy of the raw tensors."""
    message: Any = _message_class("ModelInferResponse")(
        model_name=response.model, model_version=response.version, id=response.id
    )
    if response.parameters:
        encode_parameters(response.parameters, message.parameters)
    raws: list[bytes | memoryview] = []
    for tensor in response.outputs:
        output = message.outputs.add(
            name=tensor.name, datatype=str(tensor.datatype), shape=tensor.shape
        )
        if tensor.parameters:
            encode_parameters(tensor.parameters, output.parameters)
        raw = tensor.data if isinstance(tensor, CustomTensor) else to_raw(tensor)
        raws += (head(_RAW_OUTPUTS, memoryview(raw).nbytes), raw)
    return [message.SerializeToString(), *raws]
