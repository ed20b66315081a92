"""Conversion of a ``ModelInferRequest`` without its raw tensors to a request without them.

A client that sends one tensor after another sends the same message with each, so the layouts of
recent messages are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    RequestedOutput,
    Tensor,
)
from calculators.tensors.inference.parameter import Parameters, refuse_shared_memory
from calculators.tensors.inference.place import place_of
from calculators.tensors.inference.raw_data import tensor_from_raw
from calculators.tensors.inference.shape import checked_shape
from protos.pool import message_class
from servers.fronts.kserve_grpc.parameter_map import decode_parameters
from servers.fronts.kserve_grpc.typed_contents import (
    Packed,
    from_contents,
    is_empty,
    split_contents,
)

# Longer messages are rare, and cost more memory than the cache is worth.
_LONGEST_KNOWN: Final = 2048
_KNOWN: Final = 256


@dataclass(frozen=True, slots=True)
class InputLayout:
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
class RequestLayout:
    """A request without its raw tensors. All requests made from it share its parameters."""

    model: str
    version: str
    id: str
    parameters: Parameters
    inputs: tuple[InputLayout, ...]
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


def find_layout(parsed: bytes, raw_count: int) -> RequestLayout:
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
    return message_class("inference.ModelInferRequest")


def _read_layout(parsed: bytes, raw_count: int) -> RequestLayout:
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
    return RequestLayout(
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


def _read_input(tensor: Any, place: str, packed: Packed, *, is_raw: bool) -> InputLayout:
    parameters = decode_parameters(tensor.parameters, place)
    refuse_shared_memory(parameters, place)
    name: str = tensor.datatype
    shape = checked_shape(tensor.shape, place)
    if is_raw and name and name not in Datatype.__members__:
        return InputLayout(place, tensor.name, name, shape, parameters, None)
    datatype = Datatype.named(name, place)
    data = None if is_raw else from_contents(datatype, shape, tensor.contents, place, packed)
    return InputLayout(place, tensor.name, datatype, shape, parameters, data)


def _read_output(output: Any, place: str) -> RequestedOutput:
    parameters = decode_parameters(output.parameters, place)
    refuse_shared_memory(parameters, place)
    return RequestedOutput(output.name, parameters)
