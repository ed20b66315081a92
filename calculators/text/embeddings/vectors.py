"""The last steps of embeddings in the server: dimensions, length 1, and the types of numbers."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

Floats = NDArray[np.float32]

#: A vector of zeros is divided by this.
_SMALLEST: Final = np.float32(1e-12)


def finish(values: Floats, dimensions: int | None, *, normalizes: bool) -> Floats:
    """Keep the first ``dimensions`` numbers of each row, and scale the rows to length 1."""
    if dimensions is not None:
        values = values[:, :dimensions]
    if normalizes:
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
        values = values / np.maximum(lengths, _SMALLEST)[:, np.newaxis]
    return np.ascontiguousarray(values)


def _int8(values: Floats) -> NDArray[Any]:
    scaled: NDArray[Any] = np.clip(np.rint(values * np.float32(127)), -127, 127).astype(np.int8)
    return scaled


def _uint8(values: Floats) -> NDArray[Any]:
    return (_int8(values).astype(np.int16) + 128).astype(np.uint8)


def _ubinary(values: Floats) -> NDArray[Any]:
    return np.packbits(values > 0, axis=1)


def _binary(values: Floats) -> NDArray[Any]:
    return (_ubinary(values).astype(np.int16) - 128).astype(np.int8)


#: Types of numbers by the names that clients use. int8 is 127 times the number; binary has the
#: signs of eight numbers in a byte, the first in its highest bit, less 128 so that it is signed.
KINDS: Final[Mapping[str, Callable[[Floats], NDArray[Any]]]] = {
    "float": lambda values: values,
    "int8": _int8,
    "uint8": _uint8,
    "binary": _binary,
    "ubinary": _ubinary,
}


def as_json(values: Floats, kind: str, *, is_base64: bool) -> list[bytes]:
    """Return each row as JSON: an array of numbers of a kind, or base64 of their bytes.

    The bytes are little-endian.
    """
    rows = KINDS[kind](values)
    if is_base64:
        rows = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        return [b'"' + binascii.b2a_base64(row.data, newline=False) + b'"' for row in rows]
    return [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]
