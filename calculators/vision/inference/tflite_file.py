"""The parts of a ``.tflite`` file that OpenVINO's frontend does not hand out.

A TFLite model is a FlatBuffer: tables whose fields are found through a table of offsets. Only the
fields needed here are read, so no schema package is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: The FlatBuffer's file identifier, at byte 4.
_IDENTIFIER = b"TFL3"


def is_tflite(data: bytes) -> bool:
    """Return True if the bytes look like a TFLite model."""
    return len(data) > 16 and data[4:8] == _IDENTIFIER


def custom_options(data: bytes) -> dict[str, list[bytes]]:
    """Return the options of the custom operations of the first subgraph, in the model's order.

    Args:
        data: the file's content.

    Raises:
        ValueError: the bytes are not a TFLite model.
    """
    try:
        return _custom_options(data)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("this is not a TFLite model") from error


def _custom_options(data: bytes) -> dict[str, list[bytes]]:
    model = _offset(data, 0)
    names = [_text(data, _field(data, code, 1)) for code in _tables(data, _field(data, model, 1))]
    subgraphs = list(_tables(data, _field(data, model, 2)))
    found: dict[str, list[bytes]] = {}
    for operator in _tables(data, _field(data, subgraphs[0], 3)):
        place = _field(data, operator, 0)
        name = names[_unsigned(data, place) if place else 0]
        if name:
            found.setdefault(name, []).append(_bytes(data, _field(data, operator, 5)))
    return found


def _unsigned(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _offset(data: bytes, at: int) -> int:
    return at + _unsigned(data, at)


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a table's field; 0 if the table has its default."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, offsets)[0]:
        return 0
    place = struct.unpack_from("<H", data, offsets + at)[0]
    return table + place if place else 0


def _tables(data: bytes, field: int) -> Iterator[int]:
    """The places of the tables in a vector."""
    if field:
        start = _offset(data, field)
        for index in range(_unsigned(data, start)):
            yield _offset(data, start + 4 + 4 * index)


def _bytes(data: bytes, field: int) -> bytes:
    if not field:
        return b""
    start = _offset(data, field)
    return data[start + 4 : start + 4 + _unsigned(data, start)]


def _text(data: bytes, field: int) -> str:
    return _bytes(data, field).decode()
