"""Writers of GGUF files, as ggml's ``docs/gguf.md`` describes them, and of safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float]

_VERSION: Final = 3
_ALIGNMENT: Final = 32
# Type numbers of metadata values and of tensors.
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_BLOCK: Final = 32
#: ggml's Q8_0: the numbers of a block are its values multiplied by its scale.
Q8_0: Final = np.dtype([("scale", "<f2"), ("values", "i1", _BLOCK)])
# Numpy has no bfloat16: its bits come as uint16 (see bfloat16).
_TENSOR_TYPES: Final = {
    np.dtype(np.float32): 0,
    np.dtype(np.float16): 1,
    np.dtype(np.uint16): 30,
    Q8_0: 8,
}


class Blocks(NamedTuple):
    """A tensor of a quantized type.

    Attributes:
        kind: ggml's number of the type.
        shape: rows first, in weights.
        data: all blocks.
    """

    kind: int
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, NDArray[Any] | Blocks]
) -> None:
    """Write ``metadata`` and ``tensors`` (C order; matrices are (out, in)).

    The dtypes are float32, float16, uint16 for the results of `bfloat16`, and `Q8_0`.
    """
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", _VERSION, len(tensors), len(metadata)))
        for key, value in metadata.items():
            file.write(_string(key) + _value(value))
        offset = 0
        for name, array in tensors.items():
            # ggml counts dimensions from the fastest one.
            lengths = list(reversed(array.shape))
            if isinstance(array, Blocks):
                kind, size = array.kind, array.data.nbytes
            else:
                lengths[0] *= _BLOCK if array.dtype == Q8_0 else 1
                kind, size = _TENSOR_TYPES[array.dtype], array.nbytes
            dimensions = struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths)
            file.write(_string(name) + dimensions + struct.pack("<IQ", kind, offset))
            offset += size + -size % _ALIGNMENT
        for array in tensors.values():
            _pad(file)
            data = array.data if isinstance(array, Blocks) else array
            file.write(np.ascontiguousarray(data).view(np.uint8).data)
        _pad(file)


def bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round to bfloat16, ties to even, and return the bits. ``values`` are finite."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def q8_0(values: NDArray[Any]) -> NDArray[Any]:
    """Quantize a matrix to blocks of `Q8_0`; the length of its last axis is a multiple of 32."""
    blocks = values.astype(np.float32).reshape(*values.shape[:-1], -1, _BLOCK)
    found = np.empty(blocks.shape[:-1], Q8_0)
    found["scale"] = np.abs(blocks).max(axis=-1) / 127
    scale = np.maximum(found["scale"].astype(np.float32), 1e-8)[..., np.newaxis]
    found["values"] = np.clip(np.rint(blocks / scale), -127, 127)
    return found


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % _ALIGNMENT))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    match value:
        case str():
            return struct.pack("<I", _STRING) + _string(value)
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _UINT32, value)
        case float():
            return struct.pack("<If", _FLOAT32, value)
        case _:
            return struct.pack("<I", _ARRAY) + _array(value)


def _array(values: Sequence[str] | Sequence[int] | Sequence[float]) -> bytes:
    if values and isinstance(values[0], str):
        head = struct.pack("<IQ", _STRING, len(values))
        return head + b"".join(_string(str(text)) for text in values)
    if values and isinstance(values[0], bool):
        return struct.pack("<IQ", _BOOL, len(values)) + np.array(values, dtype="?").tobytes()
    if values and isinstance(values[0], float):
        head = struct.pack("<IQ", _FLOAT32, len(values))
        return head + np.array(values, dtype="<f4").tobytes()
    return struct.pack("<IQ", _INT32, len(values)) + np.array(values, dtype="<i4").tobytes()


#: Names of types in safetensors.
_SAFETENSORS_TYPES: Final = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16"}


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write ``tensors`` (float32 or float16, C order) in the safetensors format."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": _SAFETENSORS_TYPES[array.dtype],
            "shape": array.shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).data)
