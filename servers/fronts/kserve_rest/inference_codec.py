"""Bodies of KServe's REST protocol as the data plane's requests, and its answers as bodies.

The JSON of a request is read first, without the binary data. A client that sends one tensor after
another sends the same JSON with each, so a front can cache the result of this step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rapidjson

from calculators.kit.requests.fields import whole
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
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
    size_of,
    tensor_from_raw,
    to_raw,
)
from servers.contract.data_plane import IndexEntry, ModelMetadata, TensorMetadata
from servers.fronts.kserve_rest.json_tensors import (
    BinaryOutputs,
    from_json,
    kind_of,
    objects_member,
    parameters_member,
    shape_member,
    take_flag,
    text_member,
    to_json,
)

LENGTH_HEADER = "Inference-Header-Content-Length"

_DIGITS = re.compile(r"[0-9]{1,18}")


def split_body(body: bytes | memoryview, length_header: str | None) -> tuple[bytes, memoryview]:
    """Split a body into JSON and binary data. Without the header all of it is JSON.

    Raises:
        RequestError: the header is not a number of bytes, or is not between 1 and the body's size.
    """
    if length_header is None:
        return bytes(body), memoryview(b"")
    if _DIGITS.fullmatch(length_header.strip()) is None:
        raise RequestError(f"{LENGTH_HEADER} must be a number of bytes")
    length = int(length_header)
    if not 0 < length <= len(body):
        raise RequestError(
            f"{LENGTH_HEADER} is {length}; the JSON must have 1 to {len(body)} bytes, as the body"
            " has no more"
        )
    return bytes(body[:length]), memoryview(body)[length:]


@dataclass(frozen=True, slots=True)
class RestResponse:
    """A body in pieces, so that large tensors need not be copied together.

    Attributes:
        head: the JSON.
        tensors: the binary data after it, in order; None when no output is binary.
    """

    head: bytes
    tensors: tuple[bytes | memoryview, ...] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that describe the body."""
        if self.tensors is None:
            return {"Content-Type": "application/json"}
        return {
            "Content-Type": "application/octet-stream",
            LENGTH_HEADER: str(len(self.head)),
        }

    @property
    def size(self) -> int:
        """The size of the body in bytes."""
        return len(self.head) + sum(map(len, self.tensors or ()))

    def joined(self) -> bytes:
        """Return the body in one piece."""
        return b"".join((self.head, *(self.tensors or ())))


def encode_response(response: InferResponse, binary: BinaryOutputs) -> RestResponse:
    """Encode a response, each output in the form that the client wants.

    Raises:
        RequestError: JSON cannot express an output that is wanted as JSON.
    """
    tensors: list[bytes | memoryview] = []
    outputs: list[dict[str, Any]] = []
    is_binary = False
    for tensor in response.outputs:
        output: dict[str, Any] = {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": str(tensor.datatype),
        }
        parameters = dict(tensor.parameters)
        if binary.wants(tensor.name):
            is_binary = True
            raw = _raw(tensor)
            parameters["binary_data_size"] = len(raw)
            tensors.append(raw)
        else:
            output["data"] = to_json(tensor)
        if parameters:
            output["parameters"] = parameters
        outputs.append(output)
    body: dict[str, Any] = {"model_name": response.model}
    if response.version:
        body["model_version"] = response.version
    if response.id:
        body["id"] = response.id
    if response.parameters:
        body["parameters"] = dict(response.parameters)
    body["outputs"] = outputs
    head = rapidjson.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return RestResponse(head, tuple(tensors) if is_binary else None)


def _raw(tensor: Tensor | CustomTensor) -> bytes | memoryview:
    return tensor.data if isinstance(tensor, CustomTensor) else to_raw(tensor)


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
        size = whole(size)
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
            raise RequestError(f"{left} bytes are left over after the binary data of the inputs")

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
            tail: the data after the JSON; arrays may be views of it.
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


def decode_index(value: object) -> bool:
    """Return whether the client wants only models that are ready. ``value``: None without a body.

    Raises:
        RequestError: the body is invalid.
    """
    return bool(take_flag(_object(value), "ready", "the request"))


def encode_index(entries: Sequence[IndexEntry], *, ready_only: bool) -> bytes:
    """Return the body of the index."""
    lines: list[dict[str, Any]] = [
        {"name": entry.name, "version": entry.version, "state": entry.state, "reason": entry.reason}
        for entry in entries
        if entry.state == "READY" or not ready_only
    ]
    return rapidjson.dumps(lines, ensure_ascii=False).encode()


def check_load(value: object) -> None:
    """Check a request to load a model, which must not change its configuration.

    Raises:
        RequestError: the body contains a configuration or a file, or is invalid.
    """
    for name in parameters_member(_object(value), "the request"):
        raise RequestError(
            f"the request: the parameter {quoted(name)} is not supported; a model is loaded as the"
            " server's configuration says"
        )


def check_unload(value: object) -> None:
    """Check a request to unload a model. ``unload_dependents`` is accepted and changes nothing.

    Raises:
        RequestError: the body has another parameter, or is invalid.
    """
    parameters = parameters_member(_object(value), "the request")
    take_flag(parameters, "unload_dependents", "the request")
    for name in parameters:
        raise RequestError(f"the request: the parameter {quoted(name)} is not supported")


def _object(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {kind_of(value)}")
    return value


def describe_model(metadata: ModelMetadata) -> dict[str, object]:
    """Return the body of a model's metadata.

    ``optional`` marks inputs that may be left out, which KServe's protocol cannot express.
    ``rt_info`` is OpenVINO Model Server's; it is present if the model's file has any.
    """
    described: dict[str, Any] = {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
        "inputs": _describe(metadata.inputs),
        "outputs": _describe(metadata.outputs),
    }
    if metadata.rt_info:
        described["rt_info"] = dict(metadata.rt_info)
    return described


def _describe(tensors: Sequence[TensorMetadata]) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = []
    for tensor in tensors:
        entry: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if tensor.is_optional:
            entry["optional"] = True
        described.append(entry)
    return described
