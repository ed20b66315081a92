"""What ``execute`` gets for a packet: tensors, whatever the stream carries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calculators.python.pyovms import Tensor
from calculators.requests.http_payload import RequestError


def input_of(stream: str, value: Any) -> Any:
    """The packet's value for a handler.

    A `Tensor` stays as it is. Arrays, ``bytes`` and ``str`` (as UTF-8) become a `Tensor` named
    after the stream; an array of objects, which is how strings travel, one of datatype BYTES. All
    else is handed over unchanged: the payload of an HTTP request, for example.

    Raises:
        RequestError: the array holds what a buffer cannot.
    """
    try:
        return _input_of(stream, value)
    except TypeError as error:
        raise RequestError(f'the stream "{stream}": {error}') from None


def _input_of(stream: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, str):
        return Tensor(stream, value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return Tensor(stream, value)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return Tensor(stream, pack_elements(value.flat), value.shape, "BYTES")
        return Tensor(stream, value)
    return value


def pack_elements(elements: Iterable[bytes | str]) -> bytes:
    """Elements of a BYTES tensor in one buffer, each after its length as four bytes, lowest first.

    Raises:
        TypeError: an element is neither bytes nor str.
    """
    packed = bytearray()
    for element in elements:
        if isinstance(element, str):
            element = element.encode()
        if not isinstance(element, bytes):
            raise TypeError(f"an element of BYTES is bytes or str, not {type(element).__name__}")
        packed += len(element).to_bytes(4, "little")
        packed += element
    return bytes(packed)
