"""Reader of GGUF headers, which also detects truncated files.

Source: ggml's ``docs/gguf.md``. The library loads a truncated file with zeros for weights.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

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
_VERSIONS: Final = (2, 3)
#: The most dimensions of a tensor.
_DIMENSIONS: Final = 4
#: Numbers in a block and bytes of a block, by ggml's type; types that are not listed are not
#: measured.
_BLOCKS: Final[Mapping[int, tuple[int, int]]] = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    30: (1, 2),  # BF16
}


#: Types whose blocks have an offset that is any number. openvino-genai 2026.4 rounds it to a whole
#: step between two weights (``gguf_utils/building_blocks.cpp``), so the answers are others.
_ROUNDED: Final[Mapping[int, str]] = {3: "Q4_1", 12: "Q4_K"}


class GgufModel(NamedTuple):
    """A model in a GGUF file.

    Attributes:
        length: tokens of prompt and answer together; None: unknown.
        rounded: the types of weights that the engine does not read exactly.
    """

    length: int | None
    rounded: tuple[str, ...]


def read_gguf_model(path: Path) -> GgufModel:
    """Read the facts of a model that must be known before it is loaded.

    Raises:
        ResourceError: it is no GGUF file, a truncated one, or one that the engine cannot read.
    """
    header = _read_header(path)
    facts = header.facts
    _check_readable(path, facts)
    length = facts.get(f"{facts.get('general.architecture')}.context_length")
    rounded = tuple(name for kind, name in _ROUNDED.items() if kind in header.kinds)
    return GgufModel(length if type(length) is int and length > 0 else None, rounded)


def read_gguf_facts(path: Path) -> Mapping[str, Any]:
    """Return the metadata of a GGUF file by ggml's keys; arrays are None.

    Raises:
        ResourceError: it is no GGUF file, a truncated or a damaged one.
    """
    return _read_header(path).facts


def _read_header(path: Path) -> _Header:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Header(data)
            header.read()
    except _NotReadable as error:
        raise ResourceError(f'"{path.name}" {error}') from None
    except ValueError:
        # An empty file cannot be mapped.
        raise ResourceError(f'"{path.name}" {_NO_GGUF}: it is empty') from None
    return header


def _check_readable(path: Path, facts: Mapping[str, Any]) -> None:
    parts = facts.get("split.count", 1)
    if type(parts) is int and parts > 1:
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


_NO_GGUF: Final = "is no GGUF file"


class _NotReadable(Exception):
    """A file is damaged or of another kind; the text follows its name."""


class _Header:
    """The part of the file before the weights.

    Attributes:
        facts: the metadata without arrays.
        kinds: the types of the tensors, by ggml's numbers.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self._place = "header"
        self._end_of_weights = 0
        self.facts: dict[str, Any] = {}
        self.kinds: set[int] = set()

    def read(self) -> None:
        """Read all entries, and check that the file reaches the end of the last tensor.

        Raises:
            _NotReadable: the file is of another kind, truncated or damaged.
        """
        if self._data[: len(_MAGIC)] != _MAGIC:
            raise _NotReadable(f"{_NO_GGUF}: it does not begin with the letters GGUF")
        try:
            version, tensors, facts = self._unpack("<IQQ")
            if version not in _VERSIONS:
                raise _NotReadable(
                    f"is a GGUF file of version {version}, and versions 2 and 3 can be read"
                )
            self._read_entries(tensors, facts)
        except (struct.error, OverflowError):
            raise _NotReadable(
                f"is only a part of a GGUF file: it ends within its {self._place}"
            ) from None
        except (KeyError, ValueError, RecursionError):
            raise _NotReadable(
                f"is a damaged GGUF file: its {self._place} cannot be read"
            ) from None
        if self._end_of_weights > len(self._data):
            raise _NotReadable(
                f"is only a part of a GGUF file: it has {len(self._data)} bytes, and its weights "
                f"end at byte {self._end_of_weights}"
            )

    def _read_entries(self, tensors: int, facts: int) -> None:
        self._place = "metadata"
        for _ in range(facts):
            name = self._string()
            self.facts[name] = self._value(*self._unpack("<I"))
        self._place = "list of tensors"
        last = max((self._tensor() for _ in range(tensors)), default=0)
        alignment = self.facts.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1:
            raise ValueError
        self._end_of_weights = -(-self._at // alignment) * alignment + last

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > len(self._data):
            raise struct.error

    def _string(self) -> str:
        (size,) = self._unpack("<Q")
        self._skip(size)
        return self._data[self._at - size : self._at].decode(errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._unpack(_FORMATS[kind])[0]
        kind, count = self._unpack("<IQ")
        if kind in _FORMATS:
            self._skip(struct.calcsize(_FORMATS[kind]) * count)
        else:
            for _ in range(count):
                self._value(kind)
        return None

    def _tensor(self) -> int:
        """Skip a tensor's entry; return the end of its weights from the first ones, in bytes."""
        self._string()
        (dimensions,) = self._unpack("<I")
        if dimensions > _DIMENSIONS:
            raise ValueError
        *lengths, kind, offset = self._unpack(f"<{dimensions}QIQ")
        self.kinds.add(kind)
        numbers, size = _BLOCKS.get(kind, (1, 0))
        end: int = offset + max(1, math.prod(lengths) // numbers * size)
        return end
