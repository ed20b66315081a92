"""Reader of GGUF headers, which also detects truncated files.

Source: ggml's ``docs/gguf.md``. The library loads a truncated file with zeros for weights.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
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
#: ``general.architecture`` of the models that openvino-genai 2026.4 can build
#: (``gguf_utils/gguf_modeling.cpp``).
ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")

_STRING: Final = 8
_ARRAY: Final = 9
_ALIGNMENT: Final = 32


def read_gguf_length(path: Path) -> int | None:
    """Return the length of the model in tokens, prompt and answer together; None: unknown.

    Raises:
        ResourceError: it is no GGUF file, a truncated one, or one that the engine cannot read.
    """
    facts = read_gguf_facts(path)
    _check_readable(path, facts)
    length = facts.get(f"{facts.get('general.architecture')}.context_length")
    return length if type(length) is int and length > 0 else None


def read_gguf_facts(path: Path) -> Mapping[str, Any]:
    """Return the metadata of a GGUF file by ggml's keys; arrays are None.

    Raises:
        ResourceError: it is no GGUF file, or a truncated one.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Header(data)
            header.check_size()
    except (struct.error, KeyError, ValueError, OverflowError, RecursionError):
        # An empty file cannot be mapped: ValueError.
        raise ResourceError(f'"{path.name}" is no GGUF file, or only a part of one') from None
    return header.facts


def _check_readable(path: Path, facts: Mapping[str, Any]) -> None:
    parts = facts.get("split.count", 1)
    if parts > 1:
        raise ResourceError(
            f'"{path.name}" is one of {parts} files of a model, and the engine reads models of one '
            "file; join them with `llama-gguf-split --merge`"
        )
    architecture = facts.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ResourceError(
            f'"{path.name}" is a GGUF file of the architecture {architecture!r}, and the engine '
            f"reads {', '.join(ARCHITECTURES)}; use the model in OpenVINO's form, as "
            "huggingface.co/OpenVINO has many"
        )


class _Header:
    """The part of the file before the weights. ``facts``: the metadata without arrays."""

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
        """Check that the file reaches the last tensor.

        Raises:
            ValueError: it ends before.
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
        """Skip a tensor's entry; return the offset of its weights from the first ones, in bytes."""
        self._string()
        (dimensions,) = self._unpack("<I")
        offset: int = self._unpack(f"<{dimensions}QIQ")[-1]
        return offset
