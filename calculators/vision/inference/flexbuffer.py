"""Read FlexBuffers: the options of custom operations in TFLite models."""

from __future__ import annotations

import struct
from typing import Any, Final

_INTEGERS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS: Final = {2: "e", 4: "f", 8: "d"}

# Types of FlexBuffers' values.
_INT, _UINT, _FLOAT, _KEY, _STRING = 1, 2, 3, 4, 5
_INDIRECT: Final = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR, _BOOL = 9, 10, 26
_TYPED_VECTORS: Final = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 36: _BOOL}


def read_flexbuffer(data: bytes) -> Any:
    """Return the value in a FlexBuffer: a number, a string, a list or a dict.

    Raises:
        ValueError: the bytes are not a FlexBuffer, or hold a type that is not known here.
    """
    try:
        width = data[-1]
        return _value(data, len(data) - 2 - width, width, data[-2])
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("the options of a custom operation are damaged") from error


def _value(data: bytes, at: int, width: int, packed: int) -> Any:
    """The value at ``at``; ``width`` bytes wide if it is a number or an offset."""
    kind, inner = packed >> 2, 1 << (packed & 3)
    if kind == 0:
        return None
    if kind in (_INT, _UINT, _FLOAT, _BOOL):
        return _number(data, at, width, kind)
    place = at - _unsigned(data, at, width)
    if kind in _INDIRECT:
        return _number(data, place, inner, _INDIRECT[kind])
    if kind == _KEY:
        return _key(data, place)
    count = _unsigned(data, place - inner, inner)
    if kind == _STRING:
        return data[place : place + count].decode()
    if kind in _TYPED_VECTORS:
        each = _TYPED_VECTORS[kind]
        return [_typed(data, place + i * inner, inner, each) for i in range(count)]
    if kind not in (_MAP, _VECTOR):
        raise ValueError(f"a FlexBuffer's type {kind} is not known here")
    types = place + count * inner
    values = [_value(data, place + i * inner, inner, data[types + i]) for i in range(count)]
    if kind == _VECTOR:
        return values
    key_width = _unsigned(data, place - 2 * inner, inner)
    keys = place - 3 * inner
    keys -= _unsigned(data, keys, inner)
    names = [_typed(data, keys + i * key_width, key_width, _KEY) for i in range(count)]
    return dict(zip(names, values, strict=True))


def _typed(data: bytes, at: int, width: int, kind: int) -> Any:
    if kind == _KEY:
        return _key(data, at - _unsigned(data, at, width))
    return _number(data, at, width, kind)


def _number(data: bytes, at: int, width: int, kind: int) -> Any:
    forms = {_INT: _INTEGERS, _FLOAT: _FLOATS}.get(kind, _UNSIGNED)
    found = struct.unpack_from("<" + forms[width], data, at)[0]
    return bool(found) if kind == _BOOL else found


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int(struct.unpack_from("<" + _UNSIGNED[width], data, at)[0])


def _key(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
