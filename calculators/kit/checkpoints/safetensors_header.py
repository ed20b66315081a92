"""Reader of safetensors headers, which checks them against the file's size; reads no weights.

The model library's own reader trusts the offsets in the file, and reads beyond its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

#: The most bytes of a header; a thousand tensors need some 200 KB.
_LONGEST: Final = 16 * 1024 * 1024
_LENGTH_BYTES: Final = 8
_METADATA: Final = "__metadata__"
#: Bytes of an element, by the types that the engine takes.
_SIZES: Final = {"F32": 4, "F16": 2, "BF16": 2}


class StoredTensor(NamedTuple):
    """One tensor of a file.

    Attributes:
        dtype: F32, F16 or BF16.
        place: the offset of its first byte in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    place: int

    @property
    def element_size(self) -> int:
        """Bytes of one number."""
        return _SIZES[self.dtype]


class NotSafetensors(Exception):
    """The file is not a safetensors file, or is damaged; the text continues "it"."""


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by name.

    Raises:
        NotSafetensors: the header cannot be read, or does not fit the file's size.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            header = _parse(file.read(_LENGTH_BYTES), file.read, size)
    except OSError as error:
        raise NotSafetensors(f"cannot be read: {error.strerror}") from None
    return _tensors(header.value, _LENGTH_BYTES + header.length, size)


class _SafetensorsHeader(NamedTuple):
    length: int
    value: dict[str, Any]


def _parse(prefix: bytes, read: Callable[[int], bytes], size: int) -> _SafetensorsHeader:
    length = int.from_bytes(prefix, "little")
    if len(prefix) < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise NotSafetensors(
            f"is not a safetensors file, or only a part of one: it has {size} bytes, which its "
            f"header does not fit into"
        )
    if length > _LONGEST:
        raise NotSafetensors(f"has a header of {length} bytes; at most {_LONGEST} are read")
    try:
        value = json.loads(read(length), object_pairs_hook=_once)
    # A header of brackets alone exceeds Python's depth.
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NotSafetensors("is not a safetensors file: its header is not a JSON object")
    return _SafetensorsHeader(length, value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands there twice")
    return made


def _tensors(header: dict[str, Any], data_begin: int, size: int) -> dict[str, StoredTensor]:
    header.pop(_METADATA, None)
    places: list[tuple[int, int]] = []
    found: dict[str, StoredTensor] = {}
    for name, entry in header.items():
        dtype = entry.get("dtype") if isinstance(entry, dict) else None
        if not isinstance(dtype, str) or not _are_sizes(entry.get("shape")):
            raise NotSafetensors(f'is damaged: its header does not describe the tensor "{name}"')
        if dtype not in _SIZES:
            raise NotSafetensors(
                f'has the tensor "{name}" of type {dtype}; the engine takes {", ".join(_SIZES)}'
            )
        offsets = entry.get("data_offsets")
        shape = tuple(entry["shape"])
        if not _are_sizes(offsets) or len(offsets) != 2:
            raise NotSafetensors(f'is damaged: its header does not place the tensor "{name}"')
        if offsets[1] - offsets[0] != prod(shape) * _SIZES[dtype]:
            raise NotSafetensors(
                f'is damaged: the tensor "{name}" of shape {list(shape)} does not have the bytes '
                f"that its header gives it"
            )
        places.append((offsets[0], offsets[1]))
        found[name] = StoredTensor(dtype, shape, data_begin + offsets[0])
    # The format forbids gaps, in which a file could hide other content.
    end = 0
    for first, last in sorted(places):
        if first != end:
            raise NotSafetensors("is damaged: its tensors overlap, or leave gaps")
        end = last
    if end != size - data_begin:
        raise NotSafetensors(
            f"is damaged or only a part of a file: its tensors have {end} bytes, the file has room "
            f"for {size - data_begin}"
        )
    return found


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**63 for each in value
    )
