"""The body of an inference request -> `InferRequest`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calculators.http_payload import RequestError
from servers.inference import Datatype, InferRequest, RequestedOutput, Tensor
from servers.inference.parameter import Parameter, refuse_shared_memory
from servers.inference.place import place_of
from servers.inference.raw_data import from_raw, size_of
from servers.inference.shape import checked_shape
from servers.kserve_rest.binary_outputs import BinaryOutputs
from servers.kserve_rest.data_array import from_json
from servers.kserve_rest.json_member import (
    kind_of,
    objects_member,
    parameters_member,
    shape_member,
    take_flag,
    text_member,
)


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request, and in which form the client wants the outputs."""

    request: InferRequest
    binary: BinaryOutputs


def decode_request(
    value: object, tail: memoryview, *, model: str, version: str = ""
) -> RestRequest:
    """The request that a body says.

    The parameters of the binary extension are taken out: they are about the wire, not about the
    inference. Members that the protocol does not know are passed over.

    Args:
        value: the parsed JSON.
        tail: the binary data behind it; arrays may be views of it.
        model: the name in the path.
        version: the version in the path.

    Raises:
        RequestError: it is no such request; the text names the tensor and the reason.
    """
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {kind_of(value)}")
    parameters = parameters_member(value, "the request")
    default = take_flag(parameters, "binary_data_output", "the request")
    outputs, by_name = _decode_outputs(value)
    return RestRequest(
        InferRequest(
            model=model,
            version=version,
            id=text_member(value, "id", "the request"),
            parameters=parameters,
            inputs=_decode_inputs(value, tail),
            requested_outputs=outputs,
        ),
        BinaryOutputs(bool(default), by_name),
    )


def _decode_outputs(value: dict[str, Any]) -> tuple[tuple[RequestedOutput, ...], dict[str, bool]]:
    outputs: list[RequestedOutput] = []
    binary: dict[str, bool] = {}
    for index, output in enumerate(objects_member(value, "outputs", required=False)):
        name = text_member(output, "name", f"outputs[{index}]")
        place = place_of("outputs", index, name)
        parameters = parameters_member(output, place)
        refuse_shared_memory(parameters, place)
        flag = take_flag(parameters, "binary_data", place)
        if flag is not None:
            binary[name] = flag
        outputs.append(RequestedOutput(name, parameters))
    return tuple(outputs), binary


def _decode_inputs(value: dict[str, Any], tail: memoryview) -> tuple[Tensor, ...]:
    members = objects_member(value, "inputs", required=True)
    binary = _BinaryData(tail)
    inputs: list[Tensor] = []
    for index, member in enumerate(members):
        name = text_member(member, "name", f"inputs[{index}]")
        place = place_of("inputs", index, name)
        parameters = parameters_member(member, place)
        refuse_shared_memory(parameters, place)
        datatype = Datatype.named(text_member(member, "datatype", place), place)
        shape = checked_shape(shape_member(member, place), place)
        size = parameters.pop("binary_data_size", None)
        data = member.get("data")
        if data is None:
            if size is None:
                size = _size_untold(datatype, shape, len(members), len(tail), place)
            array = from_raw(datatype, shape, binary.take(size, place), place)
        elif size is None:
            array = from_json(datatype, shape, data, place)
        else:
            raise RequestError(f"{place}: data and binary_data_size exclude each other")
        inputs.append(Tensor(name, datatype, array, parameters))
    binary.check_end()
    return tuple(inputs)


def _size_untold(
    datatype: Datatype, shape: tuple[int, ...], inputs: int, tail: int, place: str
) -> int:
    """The size of binary data without ``binary_data_size``, as OpenVINO Model Server allows it."""
    if datatype != Datatype.BYTES:
        size = size_of(datatype, shape)
        if tail or not size:
            return size
    elif tail and inputs == 1:
        return tail
    raise RequestError(
        f"{place}: there is no data: give it as data, or as binary data behind the JSON with the"
        " parameter binary_data_size"
    )


class _BinaryData:
    """What is behind the JSON, taken piece by piece."""

    def __init__(self, tail: memoryview) -> None:
        self._tail = tail
        self._at = 0

    def take(self, size: Parameter, place: str) -> memoryview:
        """The next ``size`` bytes.

        Raises:
            RequestError: ``size`` is no number of bytes, or there are fewer.
        """
        if type(size) is not int or size < 0:
            raise RequestError(f"{place}: binary_data_size must be a number of bytes")
        left = len(self._tail) - self._at
        if size > left:
            raise RequestError(
                f"{place}: the binary data should have {size} bytes, {left} are left in the body"
            )
        piece = self._tail[self._at : self._at + size]
        self._at += size
        return piece

    def check_end(self) -> None:
        """Refuse a body that goes on.

        Raises:
            RequestError: it has bytes behind the last input's.
        """
        left = len(self._tail) - self._at
        if left:
            raise RequestError(f"{left} bytes are left over behind the binary data of the inputs")
