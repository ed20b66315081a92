"""Protobuf's wire format, as far as raw tensors need it: the rest is left to protobuf.

Protobuf copies a ``bytes`` field when it parses a message, when the field is read, when it is set,
and when the message is serialized. Taking raw tensors out before the first and adding them after
the last leaves no copy on the way in, and one on the way out.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from calculators.kit.requests.http_payload import RequestError

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
