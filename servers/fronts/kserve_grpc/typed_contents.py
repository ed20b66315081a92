"""``InferTensorContents``: elements in a repeated field instead of raw bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calculators.inference.datatype import Datatype
from calculators.inference.place import shown_shape
from calculators.inference.raw_data import check_string_count, strings
from calculators.requests.http_payload import RequestError

MAX_TYPED = 2**23
"""Limit of the elements of one tensor: decoding this number takes 0.35 s."""

# The field of each datatype, and the type that all its values fit.
_FIELDS: Mapping[Datatype, tuple[str, str]] = MappingProxyType(
    {
        Datatype.BOOL: ("bool_contents", "?"),
        Datatype.INT8: ("int_contents", "<i4"),
        Datatype.INT16: ("int_contents", "<i4"),
        Datatype.INT32: ("int_contents", "<i4"),
        Datatype.INT64: ("int64_contents", "<i8"),
        Datatype.UINT8: ("uint_contents", "<u4"),
        Datatype.UINT16: ("uint_contents", "<u4"),
        Datatype.UINT32: ("uint_contents", "<u4"),
        Datatype.UINT64: ("uint64_contents", "<u8"),
        Datatype.FP32: ("fp32_contents", "<f4"),
        Datatype.FP64: ("fp64_contents", "<f8"),
        Datatype.BYTES: ("bytes_contents", "O"),
    }
)


def is_empty(contents: Any) -> bool:
    """Return whether an ``InferTensorContents`` message has no element."""
    return not contents.ListFields()


def from_contents(
    datatype: Datatype, shape: tuple[int, ...], contents: Any, place: str
) -> NDArray[Any]:
    """Return a read-only array of the elements of an ``InferTensorContents`` message.

    Raises:
        RequestError: they are in the field of another datatype, out of its range, or another
            number of them than ``shape`` says; the text begins with ``place``.
    """
    if datatype not in _FIELDS:
        raise RequestError(
            f"{place}: {datatype} has no field in contents; send it in raw_input_contents"
        )
    name, wide_type = _FIELDS[datatype]
    for field, values in contents.ListFields():
        if field.name != name:
            raise RequestError(
                f"{place}: {datatype} belongs into contents.{name}, but contents.{field.name} has"
                f" {len(values)} elements"
            )
    values = getattr(contents, name)
    count = math.prod(shape)
    if len(values) != count:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has {count} elements, contents.{name} has"
            f" {len(values)}"
        )
    if datatype == Datatype.BYTES:
        check_string_count(count, place)
        return strings(list(values), shape)
    if count > MAX_TYPED:
        raise RequestError(
            f"{place}: contents can have {MAX_TYPED} elements, not {count}; send it in"
            " raw_input_contents"
        )
    wide: NDArray[Any] = np.fromiter(values, np.dtype(wide_type), count)
    array = wide.astype(datatype.dtype, copy=False)
    if array is not wide:
        _check_range(wide, datatype, place)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _check_range(wide: NDArray[Any], datatype: Datatype, place: str) -> None:
    limits = np.iinfo(datatype.dtype)
    outside = np.flatnonzero((wide < limits.min) | (wide > limits.max))
    if outside.size:
        index = int(outside[0])
        raise RequestError(
            f"{place}: element {index} is {wide[index]}; {datatype} goes from {limits.min} to"
            f" {limits.max}"
        )
