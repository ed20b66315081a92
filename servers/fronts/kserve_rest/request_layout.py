"""The JSON of an inference request -> the request without its binary data.

A client that sends one tensor after another sends the same JSON with each, so a front can cache the
result of this step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    RequestedOutput,
    Tensor,
)
from calculators.tensors.inference.parameter import Parameter, Parameters, refuse_shared_memory
from calculators.tensors.inference.place import place_of
from calculators.tensors.inference.raw_data import size_of, tensor_from_raw
from calculators.tensors.inference.shape import checked_shape
from servers.fronts.kserve_rest.binary_outputs import BinaryOutputs
from servers.fronts.kserve_rest.data_array import from_json
from servers.fronts.kserve_rest.json_member import (
    kind_of,
    objects_member,
    parameters_member,
    shape_member,
    take_flag,
    text_member,
)


class BinaryData:
    """The rest of the binary data.

    Args:
        tail: all of it.
        inputs: the number of inputs of the request.
    """

    __slots__ = ("_at", "_inputs", "_tail")

    def __init__(self, tail: memoryview, inputs: int) -> None:
        self._tail = tail
        self._inputs = inputs
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Return whether the body has JSON only."""
        return not self._tail

    def only(self, place: str) -> int:
        """Return the size of the data of the only input, if its shape does not give the size.

        Raises:
            RequestError: there is no data, or there are more inputs.
        """
        if self.is_empty or self._inputs != 1:
            raise self.missing(place)
        return len(self._tail)

    def take(self, size: Parameter, place: str) -> memoryview:
        """Return the next ``size`` bytes.

        Raises:
            RequestError: ``size`` is not a number of bytes, or fewer are left.
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
        """Check that no data is left.

        Raises:
            RequestError: there are bytes after the data of the last input.
        """
        left = len(self._tail) - self._at
        if left:
            raise RequestError(f"{left} bytes are left over behind the binary data of the inputs")

    def missing(self, place: str) -> RequestError:
        """Return the error for an input without data."""
        return RequestError(
            f"{place}: there is no data: give it as data, or as binary data behind the JSON with"
            " the parameter binary_data_size"
        )


@dataclass(frozen=True, slots=True)
class InputLayout:
    """An input without its binary data.

    Attributes:
        datatype: a `Datatype`, or an unknown name.
        size: the client's size of the binary data, unchecked; None if it gives none.
        data: in JSON; None: it is binary.
    """

    place: str
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Parameters
    size: Parameter | None
    data: object

    def fill(self, binary: BinaryData) -> Tensor | CustomTensor:
        """Return the input with the next binary data of ``binary``.

        Raises:
            RequestError: the data does not fit the input; the text names both.
        """
        datatype = self.datatype
        if not isinstance(datatype, Datatype):
            if self.size is None and binary.is_empty:
                Datatype.named(datatype, self.place)  # more likely a misspelling
            size = binary.only(self.place) if self.size is None else self.size
            raw = binary.take(size, self.place)
            return CustomTensor(self.name, datatype, self.shape, raw, self.parameters)
        if self.data is not None:
            array = from_json(datatype, self.shape, self.data, self.place)
            return Tensor(self.name, datatype, array, self.parameters)
        size = self._implied_size(datatype, binary) if self.size is None else self.size
        raw = binary.take(size, self.place)
        return tensor_from_raw(self.name, datatype, self.shape, raw, self.parameters, self.place)

    def _implied_size(self, datatype: Datatype, binary: BinaryData) -> int:
        """Return the size of the data if the client gives none, as in OpenVINO Model Server.

        The shape determines it, or there is no other input.
        """
        if datatype == Datatype.BYTES:
            return binary.only(self.place)
        size = size_of(datatype, self.shape)
        if size and binary.is_empty:
            raise binary.missing(self.place)
        return size


@dataclass(frozen=True, slots=True)
class RequestLayout:
    """A request without its binary data, and the form in which the client wants the outputs.

    All requests made from it share its parameters.
    """

    id: str
    parameters: Parameters
    inputs: tuple[InputLayout, ...]
    outputs: tuple[RequestedOutput, ...]
    binary: BinaryOutputs

    def fill(self, tail: memoryview, *, model: str, version: str = "") -> InferRequest:
        """Return the request with its binary data.

        Args:
            tail: the data behind the JSON; arrays may be views of it.
            model: the name in the path.
            version: the version in the path.

        Raises:
            RequestError: the data is not that of these inputs; the text names the input.
        """
        binary = BinaryData(tail, len(self.inputs))
        inputs = tuple([layout.fill(binary) for layout in self.inputs])
        binary.check_end()
        return InferRequest(model, version, self.id, self.parameters, inputs, self.outputs)


def read_layout(value: object) -> RequestLayout:
    """Read the JSON of a body.

    The parameters of the binary extension are removed: they concern the encoding, not the
    inference. Members that the protocol does not know are ignored.

    Args:
        value: the parsed JSON.

    Raises:
        RequestError: it is no such request; the text names the tensor and the reason.
    """
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {kind_of(value)}")
    parameters = parameters_member(value, "the request")
    default = take_flag(parameters, "binary_data_output", "the request")
    outputs, by_name = _read_outputs(value)
    inputs = objects_member(value, "inputs", required=True)
    return RequestLayout(
        id=text_member(value, "id", "the request"),
        parameters=parameters,
        inputs=tuple([_read_input(index, member) for index, member in enumerate(inputs)]),
        outputs=outputs,
        binary=BinaryOutputs(bool(default), by_name),
    )


def _read_outputs(value: dict[str, Any]) -> tuple[tuple[RequestedOutput, ...], dict[str, bool]]:
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


def _read_input(index: int, member: dict[str, Any]) -> InputLayout:
    name = text_member(member, "name", f"inputs[{index}]")
    place = place_of("inputs", index, name)
    parameters = parameters_member(member, place)
    refuse_shared_memory(parameters, place)
    word = text_member(member, "datatype", place)
    shape = checked_shape(shape_member(member, place), place)
    size = parameters.pop("binary_data_size", None)
    data = member.get("data")
    if data is not None and size is not None:
        raise RequestError(f"{place}: data and binary_data_size exclude each other")
    is_custom = word and word not in Datatype.__members__ and data is None
    datatype = word if is_custom else Datatype.named(word, place)
    return InputLayout(place, name, datatype, shape, parameters, size, data)
