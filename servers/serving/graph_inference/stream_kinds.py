"""Kinds of a graph's streams, by the type that ports declare, else by the stream's tag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, Final, TypeAlias, get_args, get_origin

import numpy as np

from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_frame import ImageError, ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Tensor,
    from_raw,
    quoted,
    shown_shape,
    to_raw,
)
from calculators.tensors.python import pyovms
from graph_runtime import Code
from graph_runtime.authoring.packet_type import PacketType
from servers.contract.data_plane import TensorMetadata
from servers.serving.served_streams import ANSWERS, is_http_request, types_of

#: The datatypes of plain values, each without loss.
PLAIN: Final[dict[Any, Datatype]] = {
    str: Datatype.BYTES,
    bytes: Datatype.BYTES,
    bool: Datatype.BOOL,
    int: Datatype.INT64,
    float: Datatype.FP64,
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Datatype and shape, as far as they are known.

    Attributes:
        datatype: None is any.
        shape: -1 is any length; None is any shape.
    """

    datatype: Datatype | None = None
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" of the shape {shown_shape(self.shape)}"
        return f"{self.datatype or 'a tensor'}{shape}"

    def times(self, count: int) -> TensorType:
        """Return the type of ``count`` such tensors in one, with a first axis more."""
        return TensorType(self.datatype, None if self.shape is None else (count, *self.shape))

    def part(self) -> TensorType:
        """Return the type of a slice along the first axis, without that axis."""
        return TensorType(self.datatype, self.shape and self.shape[1:])

    def common(self, other: TensorType) -> TensorType | None:
        """Return the type of tensors that have this type and ``other``; None if none can."""
        if self.datatype and other.datatype and self.datatype != other.datatype:
            return None
        shapes = [each for each in (self.shape, other.shape) if each is not None]
        if len(shapes) == 2:
            own, others = shapes
            lengths = tuple(map(max, own, others))
            if len(own) != len(others) or any(
                -1 not in pair and pair[0] != pair[1] for pair in zip(own, others, strict=True)
            ):
                return None
            shapes = [lengths]
        return TensorType(self.datatype or other.datatype, next(iter(shapes), None))


def plain_type(spec: Any) -> tuple[type, int] | None:
    """Return the base type of ``spec`` and the depth of lists: (int, 1) for ``list[int]``.

    None if it is not a plain value.
    """
    rank = 0
    while get_origin(spec) is list:
        (spec,) = get_args(spec)
        rank += 1
    return (spec, rank) if spec in PLAIN else None


def tensor_type_of(spec: Any) -> TensorType:
    """Return the type of tensors for this packet type. A plain value is one element, [1]."""
    plain = plain_type(spec)
    if plain is not None:
        base, rank = plain
        return TensorType(PLAIN[base], (-1,) * rank if rank else (1,))
    if spec is ImageFrame:
        return TensorType(Datatype.UINT8, (-1, -1, -1))
    if get_origin(spec) is np.ndarray:
        shape, dtype = get_args(spec)
        return TensorType(_datatype_of(dtype), _shape_of(shape))
    return TensorType()


def _datatype_of(dtype: Any) -> Datatype | None:
    """Return the datatype of ``np.dtype[np.float32]``; None if abstract, as `np.floating`."""
    element: Any = next(iter(get_args(dtype)), None)
    if not (isinstance(element, type) and issubclass(element, np.generic)):
        return None
    try:
        return Datatype.of(np.dtype(element))
    except (TypeError, ValueError):
        return None


def _shape_of(shape: Any) -> tuple[int, ...] | None:
    """Return the shape for ``tuple[int, int]``, two unknown lengths; None if the rank is open."""
    lengths = get_args(shape)
    if get_origin(shape) is not tuple or any(isinstance(each, EllipsisType) for each in lengths):
        return None
    return (-1,) * len(lengths)


_NUMBERS: Final = {each.dtype: each for each in Datatype if each not in ("BF16", "BYTES")}


def tensor_of(name: str, value: Any, datatype: Datatype | None = None) -> AnyTensor:
    """Return the tensor for a packet of the output ``name``.

    Args:
        datatype: the declared datatype, or None; needed for empty lists and for BF16.

    Raises:
        RequestError: the value is not a tensor; INTERNAL, because the graph is at fault.
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
        raise _bad(name, f"an array that is not a tensor: {error}") from None


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
        raise _bad(name, f"a list that is not a tensor: {error}") from None


def _image(name: str, frame: Any, declared: Datatype | None) -> Tensor:
    return _array(name, frame.pixels, None)


def _renamed(name: str, tensor: Any, declared: Datatype | None) -> AnyTensor:
    renamed: AnyTensor = replace(tensor, name=name)
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
class InputStreamKind:
    """An input of a graph.

    Attributes:
        name: for clients.
        stream: its stream in the graph.
        value_of: converts a tensor to a packet's value; raises `RequestError`.
        is_http: the input takes HTTP requests, not tensors.
        is_request: the input takes the `InferRequest` itself.
    """

    name: str
    stream: str
    value_of: ValueOf
    metadata: TensorMetadata
    is_http: bool = False
    is_request: bool = False


@dataclass(frozen=True, slots=True)
class OutputStreamKind:
    """An output of a graph.

    Attributes:
        name: for clients.
        stream: its stream in the graph.
        is_response: the packets are `InferResponse` objects.
        datatype: the declared datatype, or None.
    """

    name: str
    stream: str
    metadata: TensorMetadata
    is_response: bool = False
    datatype: Datatype | None = None

    def tensor_of(self, value: Any) -> AnyTensor:
        """Return the tensor for a packet's value; raise `RequestError` if it is not a tensor."""
        return tensor_of(self.name, value, self.datatype)


def input_stream(
    stream: str, name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> InputStreamKind:
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
    metadata = _metadata(name, known or declared)
    return InputStreamKind(name, stream, kind, metadata, is_http, is_request)


def output_stream(
    stream: str, name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> OutputStreamKind:
    """An output of the graph; ``known``: what a model says of it."""
    specs = types_of(packet_type)
    declared = tensor_type_of(specs[0]) if specs else _kind_of_tag(tag)[1]
    is_response = InferResponse in specs or (
        not specs and tag.startswith(_RESPONSE) and not tag.startswith(ANSWERS)
    )
    declared = known or declared
    metadata = _metadata(name, declared)
    return OutputStreamKind(name, stream, metadata, is_response, declared.datatype)


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


AnyTensor: TypeAlias = Tensor | CustomTensor
ValueOf: TypeAlias = Callable[[AnyTensor], Any]

#: The most elements of a list. Each becomes an object; this many take some 10 ms.
MAX_LIST: Final = 2**20

#: The dtype of BF16's bits, distinguished from 16-bit integers by its metadata.
BF16_BITS: Final[np.dtype[Any]] = np.dtype("<u2", metadata={"datatype": "BF16"})

_INTEGERS: Final = tuple(each for each in Datatype if each.startswith(("INT", "UINT")))
_FLOATS: Final = (Datatype.FP64, Datatype.FP32, Datatype.FP16)
_TAKEN: Final[dict[Any, tuple[Datatype, ...]]] = {
    **{base: (datatype,) for base, datatype in PLAIN.items()},
    int: (Datatype.INT64, *(each for each in _INTEGERS if each != Datatype.INT64)),
    float: _FLOATS,
}


def refused(tensor: AnyTensor, expected: object) -> RequestError:
    """Return the error for a tensor with a wrong datatype, shape or contents."""
    if isinstance(tensor, CustomTensor) and tensor.defect:
        return RequestError(tensor.defect)
    return RequestError(
        f"input {quoted(tensor.name)}: {expected} is expected, {quoted_datatype(tensor)} of the "
        f"shape {shown_shape(tensor.shape)} came"
    )


def quoted_datatype(tensor: AnyTensor) -> str:
    return tensor.datatype if isinstance(tensor, Tensor) else quoted(tensor.datatype)


def array_value(tensor: AnyTensor) -> Any:
    """Return the array, read-only: objects for BYTES, bits (`BF16_BITS`) for BF16.

    Raises:
        RequestError: the datatype is not one of KServe's.
    """
    if isinstance(tensor, CustomTensor):
        raise refused(tensor, "a tensor of a datatype of KServe")
    if tensor.datatype is Datatype.BF16:
        return tensor.data.view(BF16_BITS)
    return tensor.data


class ArrayValue:
    """`array_value` with the datatype or number of dimensions that the stream's type declares."""

    def __init__(self, expected: TensorType, *, in_list: bool = False) -> None:
        """``in_list``: packets are lists with one array."""
        self._expected = expected
        self._in_list = in_list

    def __call__(self, tensor: AnyTensor) -> Any:
        array = array_value(tensor)
        datatype, shape = self._expected.datatype, self._expected.shape
        if datatype is not None and array.dtype != datatype.dtype:
            raise refused(tensor, self._expected)
        if shape is not None and array.ndim != len(shape):
            raise refused(tensor, self._expected)
        return [array] if self._in_list else array


class PlainValue:
    """A ``str``, ``bytes``, ``bool``, ``int`` or ``float``, or nested lists of depth ``rank``.

    A single value is a tensor with one element and any number of dimensions.
    """

    def __init__(self, base: type, rank: int, expected: TensorType) -> None:
        self._base = base
        self._rank = rank
        self._taken = _TAKEN[base]
        shape = "" if expected.shape is None else f" of the shape {shown_shape(expected.shape)}"
        self._expected = f"{', '.join(self._taken[:-1])}{' or ' * (len(self._taken) > 1)}"
        self._expected += f"{self._taken[-1]}{shape}"

    def __call__(self, tensor: AnyTensor) -> Any:
        if isinstance(tensor, CustomTensor) or tensor.datatype not in self._taken:
            raise refused(tensor, self._expected)
        data = tensor.data
        if self._rank == 0:
            if data.size != 1:
                raise refused(tensor, self._expected)
            value = data.item()
        else:
            if data.ndim != self._rank:
                raise refused(tensor, self._expected)
            if data.size > MAX_LIST:
                raise RequestError(
                    f"input {quoted(tensor.name)}: at most {MAX_LIST} elements are taken, "
                    f"{data.size} came"
                )
            value = data.tolist()
        return _texts_of(tensor.name, value) if self._base is str else value


def _texts_of(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_texts_of(name, each) for each in value]
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RequestError(f"input {quoted(name)}: the text is not UTF-8") from None


def python_value(tensor: AnyTensor) -> Any:
    """Return a `pyovms.Tensor`, a view of the data. Elements of BYTES follow their lengths."""
    raw = to_raw(tensor) if isinstance(tensor, Tensor) else tensor.data
    return pyovms.Tensor.of_request(tensor.name, raw, tensor.shape, str(tensor.datatype))


def image_value(tensor: AnyTensor) -> Any:
    """Return an `ImageFrame` for numbers of shape (height, width, channels) or an encoded image.

    Raises:
        RequestError: the tensor is not an image; the text says what would be one.
    """
    if isinstance(tensor, CustomTensor):
        raise refused(tensor, "an image")
    try:
        if tensor.datatype is Datatype.BYTES:
            if tensor.data.size != 1:
                raise ImageError(
                    f"BYTES with one element, a JPEG or PNG, is expected; {tensor.data.size} came"
                )
            return decode_image(tensor.data.item())
        if tensor.datatype is Datatype.BF16:
            raise ImageError("an image cannot be BF16")
        return ImageFrame.of_tensor(tensor.data)
    except ImageError as error:
        raise RequestError(f"input {quoted(tensor.name)}: {error}") from None


class FirstValue:
    """The value of the first of several kinds that accepts the tensor."""

    def __init__(self, kinds: Sequence[ValueOf]) -> None:
        self._kinds = kinds
        self.takes_images = image_value in kinds

    def __call__(self, tensor: AnyTensor) -> Any:
        errors: list[RequestError] = []
        for kind in self._kinds:
            try:
                return kind(tensor)
            except RequestError as error:
                errors.append(error)
        raise errors[0]


def takes_images(value_of: ValueOf) -> bool:
    """Return whether a function decodes images: it is slow then, and for a thread."""
    return value_of is image_value or (isinstance(value_of, FirstValue) and value_of.takes_images)


class NoValue:
    """Refuses every tensor, for streams whose packets cannot be made from tensors."""

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name

    def __call__(self, tensor: AnyTensor) -> Any:
        raise RequestError(
            f"input {quoted(tensor.name)}: the stream carries {self._type_name}, which no tensor "
            f"can be"
        )
