"""``ModelInferRequest`` -> `InferRequest`, and `InferResponse` -> ``ModelInferResponse``, as bytes.

A tensor of a request is not copied: its array is a view of the message, unless that is not aligned.
A tensor of a response is copied once, into the message.
"""

from __future__ import annotations

import asyncio
from functools import cache, lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, InferRequest, InferResponse
from calculators.tensors.inference.raw_data import to_raw
from protos.pool import message_class
from servers.fronts.kserve_grpc.parameter_map import encode_parameters
from servers.fronts.kserve_grpc.request_layout import find_layout, parse_request
from servers.fronts.kserve_grpc.wire import head, split

MAX_PARSED_BYTES: Final = 8 * 1024 * 1024
"""Limit of a request without its raw tensors. Parsed, some bytes take 40 times their size."""

_SHORT: Final = 64 * 1024
_long_messages: Final = FairTurns()

# Field numbers.
_RAW_INPUTS: Final = 7
_RAW_OUTPUTS: Final = 6
_RESPONSE_ID: Final = 3
_INFER_RESPONSE: Final = 2
# Answers with other names, datatypes or shapes whose beginnings are cached.
_KNOWN: Final = 256


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
    return find_layout(parsed, len(raws)).fill(raws)


async def decode_beside(data: bytes, max_parsed_bytes: int = MAX_PARSED_BYTES) -> InferRequest:
    """Decode a ``ModelInferRequest`` message as `decode_request`, a long one beside the event loop.

    One is decoded at a time, in a thread.
    """
    # Its raw tensors are not decoded, and are most of a large message.
    if len(data) <= _SHORT or len(split(data, _RAW_INPUTS)[0]) <= _SHORT:
        return decode_request(data, max_parsed_bytes)
    async with _long_messages.turn(float(len(data))):
        return await asyncio.to_thread(decode_request, data, max_parsed_bytes)


def request_id(data: bytes) -> str:
    """Return the id of a request that `decode_request` refused; "" if it cannot be found."""
    try:
        parsed, _ = split(data, _RAW_INPUTS)
        # Larger messages are not parsed.
        if len(parsed) > MAX_PARSED_BYTES:
            return ""
        return str(parse_request(parsed).id)
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


def _pieces(response: InferResponse) -> list[bytes | memoryview]:
    """Return the message in pieces, which saves a copy of the raw tensors."""
    raws: list[bytes | memoryview] = []
    has_parameters = bool(response.parameters)
    outputs = []
    for tensor in response.outputs:
        has_parameters = has_parameters or bool(tensor.parameters)
        outputs.append((tensor.name, tensor.datatype, tensor.shape))
        raw = tensor.data if isinstance(tensor, CustomTensor) else to_raw(tensor)
        raws += (head(_RAW_OUTPUTS, memoryview(raw).nbytes), raw)
    if has_parameters:
        return [_with_parameters(response), *raws]
    known = _without_id(response.model, response.version, tuple(outputs))
    if response.id:
        # A field of a message may come at any place, so the rest can be that of other answers.
        written = response.id.encode()
        return [known, head(_RESPONSE_ID, len(written)), written, *raws]
    return [known, *raws]


@lru_cache(maxsize=_KNOWN)
def _without_id(
    model: str, version: str, outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
) -> bytes:
    """Return a ``ModelInferResponse`` with the names, datatypes and shapes of its outputs."""
    message: Any = _message_class("ModelInferResponse")(model_name=model, model_version=version)
    for name, datatype, shape in outputs:
        message.outputs.add(name=name, datatype=str(datatype), shape=shape)
    return bytes(message.SerializeToString())


def _with_parameters(response: InferResponse) -> bytes:
    message: Any = _message_class("ModelInferResponse")(
        model_name=response.model, model_version=response.version, id=response.id
    )
    encode_parameters(response.parameters, message.parameters)
    for tensor in response.outputs:
        output = message.outputs.add(
            name=tensor.name, datatype=str(tensor.datatype), shape=tensor.shape
        )
        encode_parameters(tensor.parameters, output.parameters)
    return bytes(message.SerializeToString())
