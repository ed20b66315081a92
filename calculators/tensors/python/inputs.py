"""Arguments of ``execute``: packets of any stream as tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.pyovms import Tensor


def input_of(stream: str, value: Any) -> Any:
    """Convert a packet's value for a handler.

    A `Tensor` is passed unchanged. Arrays, ``bytes`` and ``str`` (as UTF-8) become a `Tensor` named
    after the stream; an array of objects, which holds strings, one of datatype BYTES. Any other
    value, such as the payload of an HTTP request, is passed unchanged.

    Raises:
        RequestError: a buffer cannot hold the array's elements.
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
    """Pack the elements of a BYTES tensor, each after its length in four bytes, little-endian.

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
