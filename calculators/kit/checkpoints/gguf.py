"""Reader of GGUF files: metadata with types, and named tensors as the file's own blocks.

A GGUF file (ggml's ``docs/gguf.md``) is a header, metadata, a list of tensors, and their data:

    "GGUF" version tensors values | key type value ... | name lengths type offset ... | data

All numbers are little-endian. A tensor's lengths are written innermost first; here a shape has the
rows first, as in NumPy. The data begin at the next multiple of ``general.alignment`` after the
list, and offsets count from there. A large model is split into files that are named
``NAME-00001-of-00003.gguf``: the first has the metadata, the others little but their number.

Everything in a file may be wrong: it may be cut by an interrupted download, or written to break
its reader. So the reader bounds what it reads by constants, checks each length against the size of
the file before it uses it, and names the member that is wrong. The header is read, not mapped: a
mapped file that shrinks while it is read kills the process. Lists (a vocabulary has up to 262,144
texts) are skipped, and read when they are asked for. Only `GgufTensor.rows` maps the file.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from graphrt_base.errors import ResourceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_FORMATS: Final[Mapping[int, str]] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_ALIGNMENT: Final = 32
#: The range of float32's normal numbers.
_LEAST: Final = 2.0**-126
_MOST: Final = 2.0**128 - 2.0**104
#: The most dimensions of a tensor (``GGML_MAX_DIMS``).
_DIMENSIONS: Final = 4
_PART: Final = re.compile(r"(?P<name>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)

# Bounds of what is read. The header of Gemma 3 has 10 MB, and its vocabulary 262,144 texts; the
# largest models have some thousand tensors.
MOST_HEADER_BYTES: Final = 64 << 20
MOST_VALUES: Final = 1 << 16
MOST_TENSORS: Final = 1 << 16
MOST_TEXTS: Final = 1 << 21
MOST_TEXT_BYTES: Final = 16 << 20
MOST_PARTS: Final = 1000
_READ_BYTES: Final = 1 << 20


class GgufType(NamedTuple):
    """A type of tensors: weights come in blocks that have the same size.

    Attributes:
        name: ggml's.
        weights: of a block.
        size: of a block, in bytes.
    """

    name: str
    weights: int
    size: int


#: The types of tensors by ggml's numbers.
TENSOR_TYPES: Final[Mapping[int, GgufType]] = {
    0: GgufType("F32", 1, 4),
    1: GgufType("F16", 1, 2),
    2: GgufType("Q4_0", 32, 18),
    3: GgufType("Q4_1", 32, 20),
    6: GgufType("Q5_0", 32, 22),
    7: GgufType("Q5_1", 32, 24),
    8: GgufType("Q8_0", 32, 34),
    9: GgufType("Q8_1", 32, 36),
    10: GgufType("Q2_K", 256, 84),
    11: GgufType("Q3_K", 256, 110),
    12: GgufType("Q4_K", 256, 144),
    13: GgufType("Q5_K", 256, 176),
    14: GgufType("Q6_K", 256, 210),
    15: GgufType("Q8_K", 256, 292),
    16: GgufType("IQ2_XXS", 256, 66),
    17: GgufType("IQ2_XS", 256, 74),
    18: GgufType("IQ3_XXS", 256, 98),
    19: GgufType("IQ1_S", 256, 50),
    20: GgufType("IQ4_NL", 32, 18),
    21: GgufType("IQ3_S", 256, 110),
    22: GgufType("IQ2_S", 256, 82),
    23: GgufType("IQ4_XS", 256, 136),
    24: GgufType("I8", 1, 1),
    25: GgufType("I16", 1, 2),
    26: GgufType("I32", 1, 4),
    27: GgufType("I64", 1, 8),
    28: GgufType("F64", 1, 8),
    29: GgufType("IQ1_M", 256, 56),
    30: GgufType("BF16", 1, 2),
    34: GgufType("TQ1_0", 256, 54),
    35: GgufType("TQ2_0", 256, 66),
    39: GgufType("MXFP4", 32, 17),
    40: GgufType("NVFP4", 64, 36),
    41: GgufType("Q1_0", 128, 18),
    42: GgufType("Q2_0", 64, 18),
}
#: Numbers that were types once, and were taken out of the format.
_REMOVED: Final = frozenset({4, 5, 31, 32, 33, 36, 37, 38})


class _NotReadable(Exception):
    """A file is damaged or of another kind; the text follows its name."""


class _Cut(Exception):
    """A file ends before the value that is read now."""


@dataclass(frozen=True, slots=True)
class _List:
    """A list in the metadata that has been skipped: its first value is at ``start``."""

    kind: int
    count: int
    start: int


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file: its place, not its numbers.

    Attributes:
        name: ggml's, such as ``blk.0.attn_q.weight``.
        shape: rows first, the length of a row last.
        type: of its weights.
        file: that holds its data.
        offset: of its data in the file, in bytes.
    """

    name: str
    shape: tuple[int, ...]
    type: GgufType
    file: Path
    offset: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[-1] // self.type.weights * self.type.size if self.shape else 0

    @property
    def row_count(self) -> int:
        """Rows of all dimensions but the last."""
        return math.prod(self.shape[:-1])

    @property
    def weights(self) -> int:
        """Weights of the tensor."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of its data."""
        return self.row_count * self.row_bytes

    def rows(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """Map rows: the file's own bytes as an array of (rows, bytes of a row), read-only."""
        import numpy as np

        stop = self.row_count if stop is None else stop
        return np.memmap(
            self.file,
            np.uint8,
            "r",
            self.offset + start * self.row_bytes,
            (stop - start, self.row_bytes),
        )


class Metadata:
    """The values of a model's first file, by key.

    The typed readers refuse a value of another type with its key. Absent values are the default.
    """

    def __init__(self, name: str, values: Mapping[str, Any], header: bytearray) -> None:
        self._name = name
        self._values = values
        self._header = header

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @property
    def scalars(self) -> Mapping[str, Any]:
        """All values but lists."""
        return {key: each for key, each in self._values.items() if not isinstance(each, _List)}

    def integer(self, key: str, default: int | None = None) -> int | None:
        """A whole number."""
        value = self._values.get(key)
        if value is None:
            return default
        if type(value) is not int:
            raise self._wrong(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        """A number in the range of float32, in which models compute."""
        value = self._values.get(key)
        if value is None:
            return default
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        if value and not _LEAST <= abs(value) <= _MOST:
            raise self._wrong(key, "in the range of float32")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool | None:
        """True or false."""
        value = self._values.get(key)
        if value is None:
            return default
        if type(value) is not bool:
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str | None:
        """A text. Bytes that are not UTF-8 are replaced."""
        value = self._values.get(key)
        if value is None:
            return default
        if type(value) is not str:
            raise self._wrong(key, "a text")
        return value

    def length(self, key: str) -> int | None:
        """Return the length of a list; None: the value is absent or no list."""
        value = self._values.get(key)
        return value.count if isinstance(value, _List) else None

    def texts(self, key: str) -> list[bytes] | None:
        """A list of texts as bytes: the texts of a vocabulary are not always UTF-8."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, _List) or value.kind != _STRING:
            raise self._wrong(key, "a list of texts")
        found, at, header, unpack = [], value.start, self._header, struct.Struct("<Q").unpack_from
        for _ in range(value.count):
            end = at + 8 + unpack(header, at)[0]
            found.append(bytes(header[at + 8 : end]))
            at = end
        return found

    def numbers(self, key: str) -> NDArray[Any] | None:
        """A list of numbers, or of true and false, as an array of the file's own type."""
        import numpy as np

        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, _List) or value.kind not in _FORMATS:
            raise self._wrong(key, "a list of numbers")
        return np.frombuffer(
            self._header, np.dtype("<" + _FORMATS[value.kind]), value.count, value.start
        )

    def integers(self, key: str) -> list[int] | None:
        """A list of whole numbers, or of true and false."""
        value = self._values.get(key)
        if isinstance(value, _List) and _FORMATS.get(value.kind, "f") in "fd":
            raise self._wrong(key, "a list of whole numbers")
        found = self.numbers(key)
        return None if found is None else [int(each) for each in found]

    def _wrong(self, key: str, wanted: str) -> ResourceError:
        value = self._values[key]
        if isinstance(value, _List):
            shown = f"a list of {value.count} values"
        else:
            shown = repr(value) if len(repr(value)) < 80 else "another value"
        return ResourceError(f'"{self._name}": the value "{key}" must be {wanted}, not {shown}')


class GgufFile:
    """A model in one GGUF file, or in all the files that it is split into.

    Attributes:
        name: of the file that was given, for errors.
        parts: all files, the first one first.
        metadata: the values of the first file.
        tensors: of all files, by name, in their order.
    """

    def __init__(self, path: Path) -> None:
        """Read the headers.

        Raises:
            ResourceError: the file is not a GGUF file, cut, damaged, or a part is missing.
            OSError: it cannot be read at all.
        """
        self.name = path.name
        self.parts = part_files(path)
        self.tensors: dict[str, GgufTensor] = {}
        for number, part in enumerate(self.parts):
            header = _read_header(part)
            if number == 0:
                self.metadata = Metadata(part.name, header.values, header.data)
            self._check_part(part, number, header.values)
            for tensor in header.tensors:
                if tensor.name in self.tensors:
                    raise ResourceError(
                        f'"{part.name}": the tensor "{tensor.name}" is there twice'
                        + (", here and in an earlier part" if number else "")
                    )
                self.tensors[tensor.name] = tensor
        expected = self.metadata.integer("split.tensors.count", 0)
        if expected and expected != len(self.tensors):
            raise ResourceError(
                f'"{self.name}": its {len(self.parts)} parts hold {len(self.tensors)} tensors, and '
                f"the first one says {expected}: a part is of another model"
            )

    @property
    def architecture(self) -> str:
        """ggml's name of the family: llama, qwen3."""
        name = self.metadata.text("general.architecture")
        if not name:
            raise ResourceError(f'"{self.name}" does not say its "general.architecture"')
        return name

    @cached_property
    def kinds(self) -> Mapping[str, int]:
        """How many tensors there are of each type, the most frequent first."""
        return dict(Counter(each.type.name for each in self.tensors.values()).most_common())

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(each.size for each in self.tensors.values())

    def _check_part(self, part: Path, number: int, values: Mapping[str, Any]) -> None:
        count, own = values.get("split.count", 0), values.get("split.no", 0)
        if count in (0, 1) and len(self.parts) == 1:
            return
        if count != len(self.parts):
            raise ResourceError(
                f'"{part.name}" says that it is one of {count} files of a model; they are found by '
                "their names, NAME-00001-of-00003.gguf, in one directory"
            )
        if own != number:
            raise ResourceError(
                f'"{part.name}" says that it is part {own!r}, counted from 0, and its name says '
                f"{number}: a part is of another model, or has another part's name"
            )


def part_files(path: Path) -> list[Path]:
    """Return all files of the model that a file belongs to; the file alone if it is not split.

    Raises:
        ResourceError: one is missing.
    """
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count <= MOST_PARTS:
        raise ResourceError(f'"{path.name}": there is no such part; at most {MOST_PARTS} are read')
    parts = [
        path.with_name(f"{match['name']}-{number:05}-of-{match['count']}.gguf")
        for number in range(1, count + 1)
    ]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        shown = ", ".join(missing[:3]) + (" ..." if len(missing) > 3 else "")
        raise ResourceError(
            f'"{path.name}" is one of {count} files of a model, and {len(missing)} of them '
            f"{'is' if len(missing) == 1 else 'are'} not in its directory: {shown}"
        )
    return parts


def read_gguf_facts(path: Path) -> Mapping[str, Any]:
    """Return the metadata of a GGUF file by ggml's keys, without lists.

    Raises:
        ResourceError: it is not a GGUF file, a truncated or a damaged one.
    """
    return GgufFile(path).metadata.scalars


_NO_GGUF: Final = "is not a GGUF file"


def _read_header(path: Path) -> _Header:
    try:
        with path.open("rb") as file:
            header = _Header(path, file)
            header.read()
    except _NotReadable as error:
        raise ResourceError(f'"{path.name}" {error}') from None
    return header


class _Header:
    """The part of a file before the weights.

    Attributes:
        data: the bytes that were read so far.
        values: the metadata.
        tensors: their places.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._size = file.seek(0, 2)
        file.seek(0)
        self._at = 0
        self._place = "header"
        self._texts = 0
        self._text_bytes = 0
        self.data = bytearray()
        self.values: dict[str, Any] = {}
        self.tensors: list[GgufTensor] = []

    def read(self) -> None:
        """Read all entries, and check that the file reaches the end of the last tensor.

        Raises:
            _NotReadable: the file is of another kind, cut or damaged.
        """
        if not self._size:
            raise _NotReadable(f"{_NO_GGUF}: it is empty")
        try:
            self._read_all()
        except _Cut:
            raise _NotReadable(
                f"is only a part of a GGUF file: it ends within its {self._place}"
            ) from None

    def _read_all(self) -> None:
        if self._size < len(_MAGIC) or self._bytes(len(_MAGIC)) != _MAGIC:
            raise _NotReadable(f"{_NO_GGUF}: it does not begin with the letters GGUF")
        (version,) = self._unpack("I")
        # Version 3 of a big-endian file reads as 0x03000000 here.
        if not version & 0xFFFF and version:
            raise _NotReadable("is big-endian, and little-endian GGUF files can be read")
        if version not in _VERSIONS:
            raise _NotReadable(
                f"is a GGUF file of version {version}, and versions 2 and 3 can be read"
            )
        tensors, values = self._unpack("QQ")
        self._bound("values", values, MOST_VALUES)
        self._bound("tensors", tensors, MOST_TENSORS)
        self._place = "metadata"
        for _ in range(values):
            self._read_value()
        self._place = "list of tensors"
        entries = [self._read_entry() for _ in range(tensors)]
        start = -(-self._at // self._alignment()) * self._alignment()
        names = Counter(name for name, *_ in entries)
        for name, count in names.items():
            if count > 1:
                raise _NotReadable(f'is a damaged GGUF file: the tensor "{name}" is there twice')
        self.tensors = [
            GgufTensor(name, shape, kind, self._path, start + offset)
            for name, shape, kind, offset in entries
        ]
        self._check_places()

    def _bound(self, what: str, count: int, most: int) -> None:
        if count > most:
            raise _NotReadable(
                f"is a damaged GGUF file: it says that it has {count} {what}; at most {most} are "
                "read"
            )

    def _read_value(self) -> None:
        key = self._text()
        shown = key if len(key) < 100 else key[:100] + "..."
        self._place = f'metadata, at "{shown}"'
        if key in self.values:
            raise _NotReadable(f'is a damaged GGUF file: the value "{shown}" is there twice')
        (kind,) = self._unpack("I")
        if kind == _STRING:
            self.values[key] = self._text()
        elif kind == _ARRAY:
            self.values[key] = self._skip_list(shown, 0)
        elif kind in _FORMATS:
            self.values[key] = self._unpack(_FORMATS[kind])[0]
        else:
            raise _NotReadable(
                f'is a damaged GGUF file: the value "{shown}" is of the unknown type {kind}'
            )
        self._place = "metadata"

    def _skip_list(self, key: str, depth: int) -> _List:
        """Skip a list: numbers at once, texts and lists one by one."""
        kind, count = self._unpack("IQ")
        start = self._at
        if kind in _FORMATS:
            self._skip(struct.calcsize("<" + _FORMATS[kind]) * count)
            return _List(kind, count, start)
        if kind not in (_STRING, _ARRAY) or depth > 2:
            raise _NotReadable(
                f'is a damaged GGUF file: the value "{key}" is a list of the unknown type {kind}'
                if kind not in (_STRING, _ARRAY)
                else f'is a damaged GGUF file: the value "{key}" is lists in lists in lists'
            )
        # Each entry has 8 bytes at least: a count that the rest has no room for is damage.
        if 8 * count > self._size - self._at:
            raise _Cut
        self._texts += count
        if self._texts > MOST_TEXTS:
            raise _NotReadable(
                f'is a damaged GGUF file: its lists have more than {MOST_TEXTS} texts, with "{key}"'
            )
        if kind == _ARRAY:
            for _ in range(count):
                self._skip_list(key, depth + 1)
            return _List(kind, count, start)
        unpack = struct.Struct("<Q").unpack_from
        at, known = self._at, len(self.data)
        for _ in range(count):
            if at + 8 > known:
                self._at = at
                self._need(8)
                known = len(self.data)
            at += 8 + unpack(self.data, at)[0]
        self._at = at
        # The last text may claim to end after the file.
        self._need(0)
        return _List(kind, count, start)

    def _read_entry(self) -> tuple[str, tuple[int, ...], GgufType, int]:
        name = self._text()
        shown = name if len(name) < 100 else name[:100] + "..."
        self._place = f'list of tensors, at "{shown}"'
        (dimensions,) = self._unpack("I")
        if dimensions > _DIMENSIONS:
            raise _NotReadable(
                f'is a damaged GGUF file: the tensor "{shown}" has {dimensions} dimensions; '
                f"{_DIMENSIONS} are the most"
            )
        *lengths, number, offset = self._unpack(f"{dimensions}QIQ")
        if number not in TENSOR_TYPES:
            raise _NotReadable(
                f'has the tensor "{shown}" of the type {number}, which '
                + ("was taken out of the format" if number in _REMOVED else "is not known")
            )
        kind = TENSOR_TYPES[number]
        # ggml counts dimensions from the innermost one.
        shape = tuple(reversed(lengths)) or (1,)
        if not all(shape):
            raise _NotReadable(
                f'is a damaged GGUF file: the tensor "{shown}" has a length of 0 in its shape '
                f"{list(shape)}"
            )
        if shape[-1] % kind.weights:
            raise _NotReadable(
                f'is a damaged GGUF file: the tensor "{shown}" has rows of {shape[-1]} weights, '
                f"and {kind.name} has blocks of {kind.weights}"
            )
        if offset % self._alignment():
            raise _NotReadable(
                f'is a damaged GGUF file: the tensor "{shown}" is at the offset {offset}, which is '
                f'not a multiple of "general.alignment", {self._alignment()}'
            )
        self._place = "list of tensors"
        return name, shape, kind, offset

    def _alignment(self) -> int:
        value = self.values.get("general.alignment", _ALIGNMENT)
        if type(value) is not int or value < 8 or value & (value - 1) or value > _READ_BYTES:
            shown = "a list" if isinstance(value, _List) else repr(value)[:80]
            raise _NotReadable(
                'is a damaged GGUF file: the value "general.alignment" must be a power of two from '
                f"8 to {_READ_BYTES}, not {shown}"
            )
        return value

    def _check_places(self) -> None:
        """Check that each tensor is in the file, and that no two overlap."""
        end = max((each.offset + each.size for each in self.tensors), default=0)
        if end > self._size:
            last = max(self.tensors, key=lambda each: each.offset + each.size)
            raise _NotReadable(
                f"is only a part of a GGUF file: it has {self._size} bytes, and its weights end at "
                f'byte {end}, with the tensor "{last.name}"'
            )
        ordered = sorted(self.tensors, key=lambda each: each.offset)
        for before, after in itertools.pairwise(ordered):
            if before.offset + before.size > after.offset:
                raise _NotReadable(
                    f'is a damaged GGUF file: the tensors "{before.name}" and "{after.name}" '
                    "overlap"
                )

    # Reading of single values.

    def _need(self, size: int) -> None:
        """Have so many bytes at the place that is read.

        Raises:
            _Cut: the file ends before.
            _NotReadable: the header is too long.
        """
        end = self._at + size
        if end <= len(self.data):
            return
        if end > self._size:
            raise _Cut
        if end > MOST_HEADER_BYTES:
            raise _NotReadable(
                f"is a damaged GGUF file: its {self._place} ends after byte {end}; a header has at "
                f"most {MOST_HEADER_BYTES} bytes"
            )
        self.data += self._file.read(max(end - len(self.data), _READ_BYTES))
        if end > len(self.data):
            raise _Cut

    def _skip(self, size: int) -> None:
        self._need(size)
        self._at += size

    def _bytes(self, size: int) -> bytes:
        self._skip(size)
        return bytes(self.data[self._at - size : self._at])

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + layout)
        self._skip(size)
        return struct.unpack_from("<" + layout, self.data, self._at - size)

    def _text(self) -> str:
        """Read a text: a key, a name or a value by itself."""
        (size,) = self._unpack("Q")
        if size > self._size - self._at:
            raise _Cut
        self._text_bytes += size
        if self._text_bytes > MOST_TEXT_BYTES:
            raise _NotReadable(
                f"is a damaged GGUF file: its names and texts have more than {MOST_TEXT_BYTES} "
                f"bytes, in its {self._place}"
            )
        return self._bytes(size).decode(errors="replace")
