"""Kinds of a graph's streams, by the type that ports declare, else by the stream's tag."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

import numpy as np

from calculators.images.image.image_frame import ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Tensor,
)
from calculators.tensors.inference.place import quoted
from calculators.tensors.inference.raw_data import from_raw
from calculators.tensors.python import pyovms
from graph_runtime import Code
from graph_runtime.authoring.packet_type import PacketType
from servers.contract.data_plane import TensorMetadata
from servers.serving.graph_inference.input_values import (
    AnyTensor,
    ArrayValue,
    FirstValue,
    NoValue,
    PlainValue,
    ValueOf,
    array_value,
    image_value,
    python_value,
)
from servers.serving.graph_inference.tensor_type import (
    PLAIN,
    TensorType,
    plain_type,
    tensor_type_of,
)
from servers.serving.http_streams import ANSWERS, is_http_request, types_of

_NUMBERS: Final = {each.dtype: each for each in Datatype if each not in ("BF16", "BYTES")}


def tensor_of(name: str, value: Any, datatype: Datatype | None = None) -> AnyTensor:
    """Return the tensor for a packet of the output ``name``.

    Args:
        datatype: the declared datatype, or None; needed for empty lists and for BF16.

    Raises:
        RequestError: the value is no tensor; INTERNAL, because the graph is at fault.
    """
    convert = _BY_TYPE.get(type(value))
    if convert is None:
        # Before arrays, because a `pyovms.Tensor` is an array too.
        convert = next((each for kind, each in _BY_TYPE.items() if isinstance(value, kind)), None)
    if convert is None:
        raise _bad(name, f"a {type(value).__name__}, which cannot become a tensor")
    return convert(name, value, datatype)


def _python(name: str, tensor: Any, declared: Datatype | None) -> AnyTensor:
    shape = tensor.shape
    if tensor.datatype not in Datatype.__members__:
        data = np.ascontiguousarray(np.asarray(tensor)).reshape(-1).view(np.uint8).data
        return CustomTensor(name, tensor.datatype, shape, data)
    datatype = Datatype(tensor.datatype)
    array = np.asarray(tensor)
    if array.dtype == datatype.dtype and array.shape == shape:
        return Tensor(name, datatype, array)
    raw = bytes(tensor)
    try:
        return Tensor(name, datatype, from_raw(datatype, shape, raw, f"output {quoted(name)}"))
    except RequestError as error:
        if datatype == Datatype.BYTES and shape == array.shape:
            return _unshaped_bytes(name, raw)
        raise RequestError(str(error), code=Code.INTERNAL) from None


def _unshaped_bytes(name: str, raw: bytes) -> Tensor:
    """Return BYTES without a given shape: packed elements, or else one element."""
    elements, at = [], 0
    while len(raw) - at >= 4:
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        elements.append(raw[at + 4 : end])
        at = end
    return _bytes(name, elements if elements and at == len(raw) else [raw])


def _array(name: str, array: Any, declared: Datatype | None) -> Tensor:
    dtype = array.dtype
    if (declared is Datatype.BF16 or dtype.metadata) and dtype == Datatype.BF16.dtype:
        return Tensor(name, Datatype.BF16, array)
    datatype = _NUMBERS.get(dtype)
    if datatype is not None:
        return Tensor(name, datatype, array)
    try:
        return Tensor.of(name, array)
    except ValueError as error:
        raise _bad(name, f"an array that is no tensor: {error}") from None


def _scalar(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _array(name, np.asarray(value).reshape(1), declared)


def _plain(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _list(name, [value], None)


def _text(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _bytes(name, [value.encode("utf-8", "replace") if isinstance(value, str) else value])


def _bytes(name: str, elements: list[bytes]) -> Tensor:
    data = np.empty(len(elements), object)
    data[:] = elements
    return Tensor(name, Datatype.BYTES, data)


def _list(name: str, values: Any, declared: Datatype | None) -> Tensor:
    if not values:
        datatype = declared or Datatype.FP64
        return Tensor(name, datatype, np.empty(0, datatype.dtype))
    if isinstance(values[0], np.ndarray):
        if len(values) != 1:
            raise _bad(name, f"a list of {len(values)} arrays; one tensor can be sent")
        return _array(name, values[0], declared)
    try:
        array = np.array(values, object if isinstance(values[0], str | bytes) else None)
        if array.dtype.kind in "SU":
            # NumPy's bytes lose trailing zeros.
            array = np.array(values, object)
        return Tensor.of(name, array)
    except (ValueError, OverflowError) as error:
        raise _bad(name, f"a list that is no tensor: {error}") from None


def _image(name: str, frame: Any, declared: Datatype | None) -> Tensor:
    return _array(name, frame.pixels, None)


def _renamed(name: str, tensor: Any, declared: Datatype | None) -> AnyTensor:
    renamed: AnyTensor = dataclasses.replace(tensor, name=name)
    return renamed


def _bad(name: str, what: str) -> RequestError:
    return RequestError(f"output {quoted(name)}: the graph gave {what}", code=Code.INTERNAL)


_BY_TYPE: Final[dict[type, Callable[[str, Any, Datatype | None], AnyTensor]]] = {
    pyovms.Tensor: _python,
    np.ndarray: _array,
    np.generic: _scalar,
    str: _text,
    bytes: _text,
    **{base: _plain for base in PLAIN if base not in (str, bytes)},
    list: _list,
    ImageFrame: _image,
    Tensor: _renamed,
    CustomTensor: _renamed,
}


_REQUEST: Final = "REQUEST"
_RESPONSE: Final = "RESPONSE"
_IMAGE: Final = "IMAGE"
_PYTHON: Final = "OVMS_PY_TENSOR"
_ARRAYS: Final = ("OVTENSOR", "TENSOR", "TFTENSOR", "TFLITE_TENSOR")


@dataclass(frozen=True, slots=True)
class InputStream:
    """An input of a graph.

    Attributes:
        value_of: converts a tensor to a packet's value; raises `RequestError`.
        is_http: the input takes HTTP requests, not tensors.
        is_request: the input takes the `InferRequest` itself.
    """

    name: str
    value_of: ValueOf
    metadata: TensorMetadata
    is_http: bool = False
    is_request: bool = False


@dataclass(frozen=True, slots=True)
class OutputStream:
    """An output of a graph.

    Attributes:
        is_response: the packets are `InferResponse` objects.
        datatype: the declared datatype, or None.
    """

    name: str
    metadata: TensorMetadata
    is_response: bool = False
    datatype: Datatype | None = None

    def tensor_of(self, value: Any) -> AnyTensor:
        """Return the tensor for a packet's value; raise `RequestError` if it is no tensor."""
        return tensor_of(self.name, value, self.datatype)


def input_stream(
    name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> InputStream:
    """An input of the graph; ``known``: what a model says of it."""
    preferred = _class_of_tag(tag)
    specs = tuple(sorted(types_of(packet_type), key=lambda spec: _class_of(spec) is not preferred))
    is_http = is_http_request(tag, packet_type)
    if not specs:
        kind, declared = _kind_of_tag(tag)
        is_request = tag.startswith(_REQUEST) and not is_http
    else:
        kinds = [kind for kind in map(_kind_of_type, specs) if kind is not None]
        kind = FirstValue(kinds) if len(kinds) > 1 else next(iter(kinds), NoValue(packet_type.name))
        declared = tensor_type_of(specs[0])
        is_request = InferRequest in specs
    return InputStream(name, kind, _metadata(name, known or declared), is_http, is_request)


def output_stream(
    name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> OutputStream:
    """An output of the graph; ``known``: what a model says of it."""
    specs = types_of(packet_type)
    declared = tensor_type_of(specs[0]) if specs else _kind_of_tag(tag)[1]
    is_response = InferResponse in specs or (
        not specs and tag.startswith(_RESPONSE) and not tag.startswith(ANSWERS)
    )
    declared = known or declared
    return OutputStream(name, _metadata(name, declared), is_response, declared.datatype)


def _class_of(spec: Any) -> Any:
    return get_origin(spec) or spec


def _class_of_tag(tag: str) -> Any:
    """Return the type that the tag stands for, among several; None if it stands for none."""
    if tag.startswith(_IMAGE):
        return ImageFrame
    if tag.startswith(_PYTHON):
        return pyovms.Tensor
    return np.ndarray if tag.startswith(_ARRAYS) else None


def _kind_of_tag(tag: str) -> tuple[ValueOf, TensorType]:
    if tag.startswith(_IMAGE):
        return image_value, tensor_type_of(ImageFrame)
    if tag.startswith(_PYTHON):
        return python_value, TensorType()
    return array_value, TensorType()


def _kind_of_type(spec: Any) -> ValueOf | None:
    """Return the conversion of a tensor to this type; None if there is none."""
    declared = tensor_type_of(spec)
    plain = plain_type(spec)
    if plain is not None:
        return PlainValue(*plain, declared)
    if spec is ImageFrame:
        return image_value
    if spec is pyovms.Tensor:
        return python_value
    if _class_of(spec) is np.ndarray:
        return array_value if declared == TensorType() else ArrayValue(declared)
    if _class_of(spec) is list:
        (inner,) = get_args(spec) or (np.ndarray,)
        if _class_of(inner) is np.ndarray:
            return ArrayValue(tensor_type_of(inner), in_list=True)
    return None


def _metadata(name: str, declared: TensorType) -> TensorMetadata:
    return TensorMetadata(name, declared.datatype or "INVALID", declared.shape or ())
