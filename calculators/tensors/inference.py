"""Inference as fronts and graphs share it: named tensors in, named tensors out.

The nouns of KServe's protocol, version 2, without its two wire formats: the fronts convert an
`InferRequest` from their messages and bodies, and an `InferResponse` to them. A `Tensor` is an
array with a name and a `Datatype`. What a client sends is checked here, once for all fronts; the
errors name the place of the mistake (`place_of`, `quoted`), in few characters whatever the client
sent.

Both wires can have tensors as bytes (`from_raw`, `to_raw`): the elements row by row, little endian,
without gaps. A BOOL is a byte, 0 or 1. An element of BYTES has its length in front, in 4 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from struct import Struct
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError

Parameter: TypeAlias = bool | int | float | str
"""One value. An ``int`` fits 64 bits, signed or not."""

Parameters: TypeAlias = Mapping[str, Parameter]

MIN_INT, MAX_INT = -(2**63), 2**64 - 1

_SHARED_MEMORY = "shared_memory_region"


def refuse_shared_memory(parameters: Parameters, place: str) -> None:
    """Refuse a tensor whose data is elsewhere.

    Raises:
        RequestError: the parameters name a region of shared memory.
    """
    if _SHARED_MEMORY in parameters:
        raise RequestError(f"{place}: shared memory is not supported; send the data itself")


_MAX_CHARS = 64
_MAX_DIMENSIONS = 8


def quoted(name: str) -> str:
    """``name`` in quotation marks, at most 64 characters of it."""
    return f'"{name}"' if len(name) <= _MAX_CHARS else f'"{name[:_MAX_CHARS]}..."'


def place_of(kind: str, index: int, name: str) -> str:
    """A tensor of a request: ``inputs[0] "image"``."""
    return f"{kind}[{index}] {quoted(name)}"


def shown_shape(shape: Sequence[object]) -> str:
    """A shape as clients write it, ``[1, 3, 224, 224]``; the first 8 of many dimensions."""
    shown = [str(dimension)[:24] for dimension in shape[:_MAX_DIMENSIONS]]
    return f"[{', '.join(shown)}{', ...' if len(shape) > _MAX_DIMENSIONS else ''}]"


class Datatype(StrEnum):
    """The type of a tensor's elements. The text is the name on the wire."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array: little endian, as on the wire.

        BF16 has ``uint16``, the bits of each number, because numpy has no such float. BYTES has
        ``object``, each a ``bytes``.
        """
        return _DTYPES[self]

    @classmethod
    def named(cls, name: str, place: str) -> Datatype:
        """Return the datatype that a client names.

        Raises:
            RequestError: no such datatype; the text begins with ``place``.
        """
        found = _BY_NAME.get(name)
        if found is None:
            raise RequestError(
                f"{place}: unknown datatype {quoted(name)}; the datatypes are {', '.join(cls)}"
            )
        return found

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Datatype:
        """Return the datatype of an array's elements; BYTES for texts, bytes and objects.

        Raises:
            ValueError: KServe has no datatype for them, as for complex numbers.
        """
        if dtype.kind in "OSU":
            return cls.BYTES
        found = _BY_DTYPE.get(dtype.newbyteorder("<"))
        if found is None:
            raise ValueError(f"KServe has no datatype for numpy's {dtype}")
        return found


_DTYPES: Mapping[Datatype, np.dtype[Any]] = MappingProxyType(
    {
        Datatype.BOOL: np.dtype(np.bool_),
        Datatype.UINT8: np.dtype("<u1"),
        Datatype.UINT16: np.dtype("<u2"),
        Datatype.UINT32: np.dtype("<u4"),
        Datatype.UINT64: np.dtype("<u8"),
        Datatype.INT8: np.dtype("<i1"),
        Datatype.INT16: np.dtype("<i2"),
        Datatype.INT32: np.dtype("<i4"),
        Datatype.INT64: np.dtype("<i8"),
        Datatype.FP16: np.dtype("<f2"),
        Datatype.FP32: np.dtype("<f4"),
        Datatype.FP64: np.dtype("<f8"),
        Datatype.BF16: np.dtype("<u2"),
        Datatype.BYTES: np.dtype(object),
    }
)
_BY_NAME = {datatype.value: datatype for datatype in Datatype}
_BY_DTYPE = {dtype: datatype for datatype, dtype in _DTYPES.items() if datatype != Datatype.BF16}


MAX_DIMENSIONS = 32
"""The maximum of every version of numpy."""

MAX_ELEMENTS = 2**31 - 1
"""More than any message can carry; only a shape with a zero in it could say so much."""


def checked_shape(dimensions: Sequence[int], place: str) -> tuple[int, ...]:
    """Check that an array of the shape ``dimensions`` can be made. No dimensions: one element.

    Raises:
        RequestError: a dimension is negative, or there are too many dimensions or elements. Zeros
            count as ones here, so that no order of multiplication can overflow.
    """
    if len(dimensions) > MAX_DIMENSIONS:
        raise RequestError(
            f"{place}: the shape has {len(dimensions)} dimensions; at most {MAX_DIMENSIONS} can be"
        )
    shape = tuple(dimensions)
    if shape and min(shape) < 0:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has a negative dimension; the shape of data"
            " is known"
        )
    if math.prod([dimension or 1 for dimension in shape]) > MAX_ELEMENTS:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has too many elements; at most"
            f" {MAX_ELEMENTS} can be"
        )
    return shape


_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor. Its shape is that of its array.

    Attributes:
        data: of the type ``datatype.dtype``: for BF16 the bits of each number, for BYTES objects,
            each a ``bytes``. A client's data is read-only, and a view of the received bytes if
            possible.

    Raises:
        ValueError: ``data`` has another type.
    """

    name: str
    datatype: Datatype
    data: NDArray[Any]
    parameters: Parameters = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        dtype = self.datatype.dtype
        # Numpy has most types once, and takes longer to compare them.
        if self.data.dtype is not dtype and self.data.dtype != dtype:
            raise ValueError(
                f'the data of the {self.datatype} tensor "{self.name}" has the type'
                f" {self.data.dtype}; it must be {dtype}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension; empty for a single element."""
        return self.data.shape

    @classmethod
    def of(cls, name: str, array: NDArray[Any], parameters: Parameters = _NONE) -> Tensor:
        """Make a tensor of an array, with the datatype of its elements.

        An array of texts, or of objects each of which is ``bytes`` or ``str``, becomes BYTES; texts
        are UTF-8 there.

        Raises:
            ValueError: KServe has no datatype for the elements.
        """
        datatype = Datatype.of(array.dtype)
        if datatype == Datatype.BYTES:
            data = np.empty(array.shape, dtype=object)
            for at, element in enumerate(array.flat):
                data.flat[at] = _bytes_of(element, name)
        else:
            data = array.astype(datatype.dtype, copy=False)
        return cls(name, datatype, data, parameters)


@dataclass(frozen=True, slots=True, eq=False)
class CustomTensor:
    """A tensor that only its two ends understand, by its datatype or by its data.

    OpenVINO Model Server passes such tensors to Python nodes. Its own clients send a text as BYTES
    without a length prefix.

    Attributes:
        datatype: any word that is not a `Datatype`; or BYTES, with a ``defect``.
        data: the bytes of the tensor as on the wire.
        defect: why the bytes are not elements of BYTES, with the place in the request.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview
    parameters: Parameters = field(default_factory=lambda: _NONE)
    defect: str = ""


def _bytes_of(element: object, name: str) -> bytes:
    if isinstance(element, bytes):
        return bytes(element)
    if isinstance(element, str):
        return element.encode()
    raise ValueError(
        f'an element of the tensor "{name}" is a {type(element).__name__}; an array of objects'
        " can have bytes and str"
    )


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the client requests."""

    name: str
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """A client's request to a model.

    Attributes:
        model: the name; not looked up yet.
        version: as the client writes it; if empty, the server chooses.
        id: repeated in the response; may be empty.
        requested_outputs: if empty, all outputs.

    Raises:
        RequestError: an input or a requested output has no name, or two have the same.
    """

    model: str
    version: str = ""
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    inputs: tuple[Tensor | CustomTensor, ...] = ()
    requested_outputs: tuple[RequestedOutput, ...] = ()

    def __post_init__(self) -> None:
        # Most requests have one input and name no output, which need no look at the others.
        if len(self.inputs) > 1 or (self.inputs and not self.inputs[0].name):
            _check_names(self.inputs, "inputs")
        if self.requested_outputs:
            _check_names(self.requested_outputs, "outputs")


def _check_names(named: Sequence[Tensor | CustomTensor | RequestedOutput], kind: str) -> None:
    names = [each.name for each in named]
    if len(set(names)) == len(names) and "" not in names:
        return
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name:
            raise RequestError(f"{kind}[{index}] has no name", param=f"{kind}[{index}].name")
        if name in first:
            raise RequestError(
                f"{kind}[{first[name]}] and {kind}[{index}] have the same name, {quoted(name)}",
                param=f"{kind}[{index}].name",
            )
        first[name] = index


@dataclass(frozen=True, slots=True, eq=False)
class InferResponse:
    """A model's answer.

    Attributes:
        version: the version that has answered.
        id: the request's id.
    """

    model: str
    version: str = ""
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    outputs: tuple[Tensor | CustomTensor, ...] = ()


MAX_STRINGS = 2**18
"""Elements of one BYTES tensor. Each is an object; so many take a tenth of a second to make."""

_LENGTH = Struct("<I")


def size_of(datatype: Datatype, shape: tuple[int, ...]) -> int:
    """Return the size of a tensor in bytes; not for BYTES, whose elements vary in size."""
    assert datatype != Datatype.BYTES, "a shape does not say how long texts are"
    return math.prod(shape) * datatype.dtype.itemsize


def from_raw(
    datatype: Datatype, shape: tuple[int, ...], raw: bytes | memoryview, place: str
) -> NDArray[Any]:
    """Read ``raw`` as an array, read-only: a view, or a copy if the bytes are not aligned.

    Raises:
        RequestError: ``raw`` has another size than ``shape`` requires, or is malformed; the text
            begins with ``place``.
    """
    if datatype == Datatype.BYTES:
        return strings(_split(raw, math.prod(shape), place), shape)
    dtype = datatype.dtype
    expected = math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise RequestError(
            f"{place}: {datatype} of the shape {shown_shape(shape)} takes {expected} bytes,"
            f" {len(raw)} came"
        )
    array: NDArray[Any] = np.ndarray(shape, dtype, raw if expected else None)
    if datatype == Datatype.BOOL and expected and np.frombuffer(raw, np.uint8).max() > 1:
        raise RequestError(f"{place}: a byte of a BOOL is neither 0 nor 1")
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


def tensor_from_raw(
    name: str,
    datatype: Datatype,
    shape: tuple[int, ...],
    raw: memoryview,
    parameters: Parameters,
    place: str,
) -> Tensor | CustomTensor:
    """Read ``raw`` as a tensor; malformed BYTES become a `CustomTensor`.

    Raises:
        RequestError: like `from_raw`, for other datatypes.
    """
    try:
        return Tensor(name, datatype, from_raw(datatype, shape, raw, place), parameters)
    except RequestError as error:
        if datatype != Datatype.BYTES:
            raise
        return CustomTensor(name, datatype, shape, raw, parameters, error.message)


def to_raw(tensor: Tensor) -> bytes | memoryview:
    """Return the bytes of a tensor: a view of its data if that is contiguous, else a copy."""
    if tensor.datatype == Datatype.BYTES:
        return _joined(tensor)
    return np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data


def strings(elements: list[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the data of a BYTES tensor of its elements, read-only."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def check_string_count(count: int, place: str) -> None:
    """Refuse a BYTES tensor that would take too long to read.

    Raises:
        RequestError: it has more than `MAX_STRINGS` elements.
    """
    if count > MAX_STRINGS:
        raise RequestError(f"{place}: a BYTES tensor can have {MAX_STRINGS} elements, not {count}")


def _split(raw: bytes | memoryview, count: int, place: str) -> list[bytes]:
    check_string_count(count, place)
    elements: list[bytes] = []
    at, size = 0, len(raw)
    for index in range(count):
        if size - at < _LENGTH.size:
            raise RequestError(
                f"{place}: the data ends before the length of element {index} of {count}"
            )
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if length > size - at:
            raise RequestError(
                f"{place}: element {index} is said to have {length} bytes, {size - at} are left"
            )
        elements.append(bytes(raw[at : at + length]))
        at += length
    if at != size:
        raise RequestError(f"{place}: {size - at} bytes are left over after {count} elements")
    return elements


def _joined(tensor: Tensor) -> bytes:
    pieces: list[bytes] = []
    for element in tensor.data.ravel().tolist():
        pieces.append(_LENGTH.pack(len(element)))
        pieces.append(element)
    return b"".join(pieces)
