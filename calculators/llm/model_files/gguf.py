"""The facts of a GGUF file that the engine does not tell, and whether the file is whole.

Source: ggml's ``docs/gguf.md``. The library serves a file that was cut off with zeros for weights.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, Final

from graph_runtime import ResourceError

_MAGIC: Final = b"GGUF"
_FORMATS: Final = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING: Final = 8
_ARRAY: Final = 9
_ALIGNMENT: Final = 32


def read_gguf_length(path: Path) -> int | None:
    """How many tokens the model can hold, prompt and answer together; None: it does not say.

    Raises:
        ResourceError: it is no GGUF file, or not a whole one.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Header(data)
            header.check_size()
    except (struct.error, KeyError, ValueError, OverflowError, RecursionError):
        # An empty file cannot be mapped: ValueError.
        raise ResourceError(f'"{path.name}" is no GGUF file, or only a part of one') from None
    length = header.facts.get(f"{header.facts.get('general.architecture')}.context_length")
    return length if type(length) is int and length > 0 else None


class _Header:
    """What stands before the weights. ``facts``: the metadata, arrays left out."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(_MAGIC)
        if data[: len(_MAGIC)] != _MAGIC:
            raise ValueError
        _, tensors, facts = self._unpack("<IQQ")
        self.facts: dict[str, Any] = {}
        for _ in range(facts):
            name = self._string()
            self.facts[name] = self._value(*self._unpack("<I"))
        self._last_offset = max((self._tensor() for _ in range(tensors)), default=0)

    def check_size(self) -> None:
        """Is something of the last weights there?

        Raises:
            ValueError: no.
        """
        alignment = self.facts.get("general.alignment", _ALIGNMENT)
        if -(-self._at // alignment) * alignment + self._last_offset >= len(self._data):
            raise ValueError

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _string(self) -> str:
        (size,) = self._unpack("<Q")
        self._at += size
        return self._data[self._at - size : self._at].decode(errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._unpack(_FORMATS[kind])[0]
        kind, count = self._unpack("<IQ")
        if kind in _FORMATS:
            self._at += struct.calcsize(_FORMATS[kind]) * count
        else:
            for _ in range(count):
                self._value(kind)
        return None

    def _tensor(self) -> int:
        """Where its weights are, from the first ones on."""
        self._string()
        (dimensions,) = self._unpack("<I")
        offset: int = self._unpack(f"<{dimensions}QIQ")[-1]
        return offset
