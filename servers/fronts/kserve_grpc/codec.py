"""``ModelInferRequest`` -> `InferRequest`, and `InferResponse` -> ``ModelInferResponse``, as bytes.

A tensor of a request is not copied: its array is a view of the message, unless that is not aligned.
A tensor of a response is copied once, into the message.

The rest of a request, without its raw tensors, is a layout. A client that sends one tensor after
another sends the same message with each, so the layouts of recent messages are cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    MAX_INT,
    MIN_INT,
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Parameter,
    Parameters,
    RequestedOutput,
    Tensor,
    checked_shape,
    place_of,
    quoted,
    refuse_shared_memory,
    tensor_from_raw,
    to_raw,
)
from protos import messages
from protos.pool import message_class
from servers.fronts.kserve_grpc.contents import (
    Packed,
    from_contents,
    head,
    is_empty,
    split,
    split_contents,
)

MAX_PARAMETERS = 1024

_MAX_INT64 = 2**63 - 1


def decode_parameters(fields: Mapping[str, Any], place: str) -> dict[str, Parameter]:
    """Return the parameters in a map of ``InferParameter`` messages.

    Raises:
        RequestError: one has no value, or there are more than `MAX_PARAMETERS`; the text begins
            with ``place``.
    """
    parameters: dict[str, Parameter] = {}
    if not fields:
        return parameters
    if len(fields) > MAX_PARAMETERS:
        raise RequestError(f"{place}: there can be {MAX_PARAMETERS} parameters, not {len(fields)}")
    for name, value in fields.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            raise RequestError(f"{place}: the parameter {quoted(name)} has no value")
        parameters[name] = getattr(value, choice)
    return parameters


def encode_parameters(parameters: Parameters, fields: Any) -> None:
    """Put ``parameters`` into a map of ``InferParameter`` messages.

    Raises:
        ValueError: an integer needs more than 64 bits.
    """
    for name, value in parameters.items():
        setattr(fields[name], _choice(name, value), value)


def _choice(name: str, value: Parameter) -> str:
    if isinstance(value, bool):
        return "bool_param"
    if isinstance(value, str):
        return "string_param"
    if isinstance(value, float):
        return "double_param"
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError(f'the parameter "{name}" needs more than 64 bits')
    return "int64_param" if value <= _MAX_INT64 else "uint64_param"


# Longer messages are rare, and cost more memory than the cache is worth.
# Answers with other names, datatypes or shapes whose beginnings are cached.
_KNOWN: Final = 256
_LONGEST_KNOWN: Final = 2048


@dataclass(frozen=True, slots=True)
class MessageInputLayout:
    """An input without its raw tensor.

    Attributes:
        datatype: a `Datatype`, or an unknown name.
        data: the elements of ``contents``; None: they are raw.
    """

    place: str
    name: str
    datatype: Datatype | str
    shape: tuple[int, ...]
    parameters: Parameters
    data: NDArray[Any] | None

    def fill(self, raw: memoryview | None) -> Tensor | CustomTensor:
        """Return the input with its raw tensor; None: it has none.

        Raises:
            RequestError: the data does not fit the input; the text names both.
        """
        datatype = self.datatype
        if not isinstance(datatype, Datatype):
            assert raw is not None
            return CustomTensor(self.name, datatype, self.shape, raw, self.parameters)
        if self.data is not None:
            return Tensor(self.name, datatype, self.data, self.parameters)
        assert raw is not None
        return tensor_from_raw(self.name, datatype, self.shape, raw, self.parameters, self.place)


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """A request without its raw tensors. All requests made from it share its parameters."""

    model: str
    version: str
    id: str
    parameters: Parameters
    inputs: tuple[MessageInputLayout, ...]
    outputs: tuple[RequestedOutput, ...]

    def fill(self, raws: Sequence[memoryview]) -> InferRequest:
        """Return the request with its raw tensors: one for each input, or none at all.

        Raises:
            RequestError: the data is not that of these inputs; the text names the input.
        """
        if raws:
            inputs = [each.fill(raw) for each, raw in zip(self.inputs, raws, strict=True)]
        else:
            inputs = [each.fill(None) for each in self.inputs]
        return InferRequest(
            self.model, self.version, self.id, self.parameters, tuple(inputs), self.outputs
        )


def find_layout(parsed: bytes, raw_count: int) -> MessageLayout:
    """Return the layout of a message whose ``raw_count`` raw tensors have been split off.

    Raises:
        RequestError: the message is invalid; the text names the tensor and the reason.
    """
    if raw_count and len(parsed) <= _LONGEST_KNOWN:
        return _known_layout(parsed, raw_count)
    return _read_layout(parsed, raw_count)


def parse_request(parsed: bytes) -> Any:
    """Parse a ``ModelInferRequest`` message.

    Raises:
        DecodeError: it is none.
    """
    return _request_class().FromString(parsed)


@cache
def _request_class() -> Any:
    return messages.ModelInferRequest


def _read_layout(parsed: bytes, raw_count: int) -> MessageLayout:
    packed: list[Packed] = []
    if len(parsed) > _LONGEST_KNOWN:
        parsed, packed = split_contents(parsed)
    try:
        message = parse_request(parsed)
    except DecodeError as error:
        raise RequestError("the request is not a ModelInferRequest message") from error
    if raw_count:
        _check_raw(message, raw_count, packed)
    inputs = [
        _read_input(
            tensor,
            place_of("inputs", index, tensor.name),
            packed[index] if packed else {},
            is_raw=bool(raw_count),
        )
        for index, tensor in enumerate(message.inputs)
    ]
    return MessageLayout(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        parameters=decode_parameters(message.parameters, "the request"),
        inputs=tuple(inputs),
        outputs=tuple(
            _read_output(output, place_of("outputs", index, output.name))
            for index, output in enumerate(message.outputs)
        ),
    )


_known_layout = lru_cache(maxsize=_KNOWN)(_read_layout)


def _check_raw(message: Any, count: int, packed: list[Packed]) -> None:
    if count != len(message.inputs):
        raise RequestError(
            f"raw_input_contents has {count} parts for {len(message.inputs)} inputs; it must have"
            " one for each"
        )
    for index, tensor in enumerate(message.inputs):
        has_contents = tensor.HasField("contents") and not is_empty(tensor.contents)
        if has_contents or (packed and packed[index]):
            raise RequestError(
                f"{place_of('inputs', index, tensor.name)}: data both in contents and in"
                " raw_input_contents is not allowed"
            )


def _read_input(tensor: Any, place: str, packed: Packed, *, is_raw: bool) -> MessageInputLayout:
    parameters = decode_parameters(tensor.parameters, place)
    refuse_shared_memory(parameters, place)
    name: str = tensor.datatype
    shape = checked_shape(tensor.shape, place)
    if is_raw and name and name not in Datatype.__members__:
        return MessageInputLayout(place, tensor.name, name, shape, parameters, None)
    datatype = Datatype.named(name, place)
    data = None if is_raw else from_contents(datatype, shape, tensor.contents, place, packed)
    return MessageInputLayout(place, tensor.name, datatype, shape, parameters, data)


def _read_output(output: Any, place: str) -> RequestedOutput:
    parameters = decode_parameters(output.parameters, place)
    refuse_shared_memory(parameters, place)
    return RequestedOutput(output.name, parameters)


MAX_PARSED_BYTES: Final = 8 * 1024 * 1024
"""Limit of a request without its raw tensors. Parsed, some bytes take 40 times their size."""

_SHORT: Final = 64 * 1024
_long_messages: Final = FairTurns()

# Field numbers.
_RAW_INPUTS: Final = 7
_RAW_OUTPUTS: Final = 6
_RESPONSE_ID: Final = 3
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
    message = messages.ModelStreamInferResponse(error_message=text)
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
    message = messages.ModelInferResponse(model_name=model, model_version=version)
    for name, datatype, shape in outputs:
        message.outputs.add(name=name, datatype=str(datatype), shape=shape)
    return bytes(message.SerializeToString())


def _with_parameters(response: InferResponse) -> bytes:
    message = messages.ModelInferResponse(
        model_name=response.model, model_version=response.version, id=response.id
    )
    encode_parameters(response.parameters, message.parameters)
    for tensor in response.outputs:
        output = message.outputs.add(
            name=tensor.name, datatype=str(tensor.datatype), shape=tensor.shape
        )
        encode_parameters(tensor.parameters, output.parameters)
    return bytes(message.SerializeToString())
