"""Tensors as bytes: the elements row by row, little endian, without gaps. Both wires have it.

A BOOL is a byte, 0 or 1. An element of BYTES has its length in front, in 4 bytes.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.datatype import Datatype
from calculators.tensors.inference.parameter import Parameters
from calculators.tensors.inference.place import shown_shape
from calculators.tensors.inference.tensor import CustomTensor, Tensor

MAX_STRINGS = 2**18
"""Elements of one BYTES tensor. Each is an object; so many take a tenth of a second to make."""

_LENGTH = Struct("<I")


def size_of(datatype: Datatype, shape: tuple[int, ...]) -> int:
    """The size of a tensor in bytes; not for BYTES, whose elements vary in size."""
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
    """The bytes of a tensor: a view of its data if that is contiguous, else a copy."""
    if tensor.datatype == Datatype.BYTES:
        return _joined(tensor)
    return np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data


def strings(elements: list[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
    """The data of a BYTES tensor of its elements, read-only."""
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
        raise RequestError(f"{place}: {size - at} bytes are left over behind {count} elements")
    return elements


def _joined(tensor: Tensor) -> bytes:
    pieces: list[bytes] = []
    for element in tensor.data.ravel().tolist():
        pieces.append(_LENGTH.pack(len(element)))
        pieces.append(element)
    return b"".join(pieces)
