"""Contents of tensors in protobuf's messages: raw bytes, and typed elements in repeated fields.

Only what raw tensors need of protobuf's wire format is here. Protobuf copies a ``bytes`` field when
it parses a message, when the field is read, when it is set, and when the message is serialized.
Taking raw tensors out before the first and adding them after the last leaves no copy on the way in,
and one on the way out.

``InferTensorContents`` has elements in a repeated field instead of raw bytes. Protobuf makes a
Python object of each element that is read: 40 ns each, with the interpreter's lock held, so that a
message of 8 MiB of BOOL would block the event loop for a third of a second. Packed fields of longer
messages are therefore split off before protobuf parses them, and NumPy decodes their numbers, once
shape and number of elements are known to agree.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    MAX_STRINGS,
    Datatype,
    check_string_count,
    shown_shape,
    strings,
)

MAX_FIELDS: Final = 4096
"""Limit of the fields of a request, with each value of a repeated field: parsing takes time."""

_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_VARINT: Final = 0
_LONGEST_VARINT: Final = 10


def split(message: bytes, field: int) -> tuple[bytes, list[memoryview]]:
    """Split off the values of a field of bytes; return the rest, and views of the values.

    Raises:
        RequestError: ``message`` is not a message, or has more than `MAX_FIELDS` fields.
    """
    rest, values = split_fields(message, range(field, field + 1))
    return rest, values.get(field, [])


def split_fields(
    message: bytes, fields: Container[int], most_fields: int = MAX_FIELDS
) -> tuple[bytes, dict[int, list[memoryview]]]:
    """Split off the values of fields of bytes; return the rest, and views of the values by field.

    Raises:
        RequestError: ``message`` is not a message, or has more than ``most_fields`` fields.
    """
    view = memoryview(message)
    values: dict[int, list[memoryview]] = {}
    rest: list[bytes] = []
    kept_from = at = count = 0
    end = len(message)
    try:
        while at < end:
            begin = at
            count += 1
            if count > most_fields:
                raise RequestError(f"the request has more than {most_fields} fields")
            # Most numbers have one byte.
            tag, at = message[at], at + 1
            if tag >= 0x80:
                tag, at = _varint(message, begin)
            kind = tag & 7
            if kind == _BYTES:
                length = message[at]
                if length < 0x80:
                    at += 1
                else:
                    length, at = _varint(message, at)
                if tag >> 3 in fields:
                    rest.append(message[kept_from:begin])
                    kept_from = at + length
                    values.setdefault(tag >> 3, []).append(view[at:kept_from])
                at += length
            elif kind == _VARINT:
                _, at = _varint(message, at)
            else:
                at += _FIXED[kind]
    except (IndexError, KeyError):
        at = -1
    if at != end:
        raise RequestError("the request is not a message of its type")
    if not values:
        return message, values
    rest.append(message[kept_from:])
    return b"".join(rest), values


def head(field: int, size: int) -> bytes:
    """Return the tag and length before a value of ``size`` bytes."""
    return _encoded(field << 3 | _BYTES) + _encoded(size)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at ``at``, and its end."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number = byte & 0x7F
    for place in range(1, _LONGEST_VARINT):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise IndexError


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


MAX_TYPED = 2**23
"""Limit of the elements of one tensor."""

Packed = Mapping[int, Sequence[memoryview]]
"""Packed values of the fields of an ``InferTensorContents``, by the fields' numbers."""

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


# The fields that protobuf packs: names and sizes of an element by number; 0: varints.
_PACKED_FIELDS: Mapping[int, tuple[str, int]] = MappingProxyType(
    {
        1: ("bool_contents", 0),
        2: ("int_contents", 0),
        3: ("int64_contents", 0),
        4: ("uint_contents", 0),
        5: ("uint64_contents", 0),
        6: ("fp32_contents", 4),
        7: ("fp64_contents", 8),
    }
)

# Fields of ModelInferRequest and of InferInputTensor.
_INPUTS, _OUTPUTS, _CONTENTS = 5, 6, 5
# Bytes of a tensor besides its contents. Protobuf makes a number of every byte of a shape.
MOST_HEAD_BYTES = 64 * 1024
# Numbers that are decoded at a time.
_BLOCK = 2**18
_MOST_BITS = 70


def split_contents(message: bytes) -> tuple[bytes, list[Packed]]:
    """Split the packed contents off a ``ModelInferRequest``; return the rest, and each input's.

    Raises:
        RequestError: it is not a message, or has too many fields, or a tensor has too many bytes
            besides its contents.
    """
    rest, values = split_fields(message, (_INPUTS, _OUTPUTS))
    pieces = [rest]
    found: list[Packed] = []
    for index, value in enumerate(values.get(_OUTPUTS, [])):
        _check_size(len(value), f"outputs[{index}]")
        pieces += (head(_OUTPUTS, len(value)), bytes(value))
    for index, value in enumerate(values.get(_INPUTS, [])):
        lean, contents = split_fields(bytes(value), (_CONTENTS,))
        _check_size(len(lean), f"inputs[{index}]")
        packed: dict[int, list[memoryview]] = {}
        for each in contents.get(_CONTENTS, []):
            unpacked, own = split_fields(
                bytes(each), _PACKED_FIELDS, most_fields=MAX_STRINGS + MAX_FIELDS
            )
            for number, parts in own.items():
                packed.setdefault(number, []).extend(parts)
            lean += head(_CONTENTS, len(unpacked)) + unpacked
        pieces += (head(_INPUTS, len(lean)), lean)
        found.append(packed)
    return b"".join(pieces), found


def _check_size(size: int, place: str) -> None:
    if size > MOST_HEAD_BYTES:
        raise RequestError(
            f"{place}: name, shape and parameters have {size} bytes; at most "
            f"{MOST_HEAD_BYTES} can be"
        )


def is_empty(contents: Any) -> bool:
    """Return whether an ``InferTensorContents`` message has no element."""
    return not contents.ListFields()


def from_contents(
    datatype: Datatype, shape: tuple[int, ...], contents: Any, place: str, packed: Packed
) -> NDArray[Any]:
    """Return a read-only array of the elements of an ``InferTensorContents`` message.

    ``packed``: what `split_contents` took out of it.

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
    counts = {
        _PACKED_FIELDS[number][0]: (number, sum(_count(number, part) for part in parts))
        for number, parts in packed.items()
    }
    for field_name, (_, elements) in counts.items():
        if field_name != name:
            raise RequestError(
                f"{place}: {datatype} belongs into contents.{name}, but contents.{field_name} has"
                f" {elements} elements"
            )
    values = getattr(contents, name)
    number, have = counts.get(name, (0, 0))
    if have and values:
        raise RequestError(f"{place}: contents.{name} is packed only in part")
    have = have or len(values)
    count = math.prod(shape)
    if have != count:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has {count} elements, contents.{name} has"
            f" {have}"
        )
    if datatype == Datatype.BYTES:
        check_string_count(count, place)
        return strings(list(values), shape)
    if count > MAX_TYPED:
        raise RequestError(
            f"{place}: contents can have {MAX_TYPED} elements, not {count}; send it in"
            " raw_input_contents"
        )
    wide: NDArray[Any]
    if number and count:
        parts = [_decoded(number, part, wide_type, place) for part in packed[number]]
        wide = parts[0] if len(parts) == 1 else np.concatenate(parts)
    else:
        wide = np.fromiter(values, np.dtype(wide_type), count)
    array = wide.astype(datatype.dtype, copy=False)
    if array is not wide:
        _check_range(wide, datatype, place)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _count(number: int, part: memoryview) -> int:
    """Return the number of elements in a packed value."""
    size = _PACKED_FIELDS[number][1]
    if size:
        return len(part) // size
    return int(np.count_nonzero(np.frombuffer(part, np.uint8) < 0x80))


def _decoded(number: int, part: memoryview, wide_type: str, place: str) -> NDArray[Any]:
    """Decode a packed value.

    Raises:
        RequestError: it is malformed.
    """
    name, size = _PACKED_FIELDS[number]
    dtype = np.dtype(wide_type)
    if size:
        if len(part) % size:
            raise RequestError(f"{place}: contents.{name} ends within an element")
        array: NDArray[Any] = np.frombuffer(part, dtype)
        return array if array.flags.aligned else array.copy()
    data = np.frombuffer(part, np.uint8)
    if len(data) and data[-1] >= 0x80:
        raise RequestError(f"{place}: contents.{name} ends within an element")
    ends = np.flatnonzero(data < 0x80)
    decoded = np.empty(len(ends), dtype)
    begin = 0
    for at in range(0, len(ends), _BLOCK):
        block = ends[at : at + _BLOCK]
        starts = np.concatenate(([begin], block[:-1] + 1))
        begin = int(block[-1]) + 1
        lengths = block - starts + 1
        if 7 * int(lengths.max()) > _MOST_BITS:
            raise RequestError(f"{place}: an element of contents.{name} is too long")
        numbers = (data[starts] & 0x7F).astype(np.uint64)
        for byte in range(1, int(lengths.max())):
            longer = np.flatnonzero(lengths > byte)
            more = (data[starts[longer] + byte] & 0x7F).astype(np.uint64)
            numbers[longer] |= more << np.uint64(7 * byte)
        # As protobuf: more bits than the type has are dropped; a BOOL is true unless it is 0.
        into = decoded[at : at + len(block)]
        if dtype == np.bool_:
            np.not_equal(numbers, 0, out=into)
        else:
            into[...] = numbers.astype(f"<u{dtype.itemsize}").view(dtype)
    return decoded


def _check_range(wide: NDArray[Any], datatype: Datatype, place: str) -> None:
    limits = np.iinfo(datatype.dtype)
    outside = np.flatnonzero((wide < limits.min) | (wide > limits.max))
    if outside.size:
        index = int(outside[0])
        raise RequestError(
            f"{place}: element {index} is {wide[index]}; {datatype} goes from {limits.min} to"
            f" {limits.max}"
        )
