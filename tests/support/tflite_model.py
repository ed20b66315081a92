"""`relu_model`: the smallest TFLite model, written field by field."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

#: Writes something at the end of the bytes, and returns its place.
Writer: TypeAlias = Callable[[bytearray], int]

_RELU = 19


def relu_model(*shape: int) -> bytes:
    """Return a model with one input and one output of float32 and this shape: ``max(x, 0)``."""
    tensors = [
        _table({0: _vector("i", shape), 2: _number("I", 0), 3: _text(name)}) for name in ("x", "y")
    ]
    operator = _table({1: _vector("i", [0]), 2: _vector("i", [1])})
    graph = _table(
        {
            0: _tables(tensors),
            1: _vector("i", [0]),
            2: _vector("i", [1]),
            3: _tables([operator]),
        }
    )
    code = _table({0: _number("b", _RELU), 2: _number("i", 1), 3: _number("i", _RELU)})
    model = _table(
        {0: _number("I", 3), 1: _tables([code]), 2: _tables([graph]), 4: _tables([_table({})])}
    )
    data = bytearray(b"\0\0\0\0TFL3")
    struct.pack_into("<I", data, 0, model(data))
    return bytes(data)


def _number(form: str, value: int) -> bytes:
    return struct.pack(f"<{form}", value)


def _aligned(data: bytearray) -> int:
    data.extend(bytes(-len(data) % 4))
    return len(data)


def _vector(form: str, values: Sequence[int]) -> Writer:
    def write(data: bytearray) -> int:
        at = _aligned(data)
        data.extend(struct.pack(f"<I{len(values)}{form}", len(values), *values))
        return at

    return write


def _text(text: str) -> Writer:
    return _vector("B", text.encode())


def _tables(tables: Sequence[Writer]) -> Writer:
    def write(data: bytearray) -> int:
        at = _aligned(data)
        data.extend(struct.pack("<I", len(tables)) + bytes(4 * len(tables)))
        for index, each in enumerate(tables):
            place = at + 4 + 4 * index
            struct.pack_into("<I", data, place, each(data) - place)
        return at

    return write


def _table(fields: Mapping[int, bytes | Writer]) -> Writer:
    """Each field has four bytes, after the place of the table of offsets."""

    def write(data: bytearray) -> int:
        count = max(fields, default=-1) + 1
        offsets = _aligned(data)
        size = 4 + 4 * len(fields)
        data.extend(struct.pack(f"<HH{count}H", 4 + 2 * count, size, *([0] * count)))
        at = _aligned(data)
        data.extend(struct.pack("<i", at - offsets) + bytes(4 * len(fields)))
        for order, (number, value) in enumerate(fields.items()):
            place = at + 4 + 4 * order
            struct.pack_into("<H", data, offsets + 4 + 2 * number, place - at)
            if isinstance(value, bytes):
                data[place : place + len(value)] = value
            else:
                struct.pack_into("<I", data, place, value(data) - place)
        return at

    return write
