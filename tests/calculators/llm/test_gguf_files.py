"""GGUF files that are not whole, or not right: each is refused by name, and never half read."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from calculators.kit.checkpoints.gguf import GgufFile, read_gguf_facts
from calculators.llm.model_files import read_model_length
from graph_runtime import ResourceError

_U8, _U16, _U32, _I32, _STRING, _ARRAY = 0, 2, 4, 5, 8, 9
#: In tests: a list of texts.
_STRING_LIST: Final = -1
_F16, _Q8_0 = 1, 8


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", _U32, value)


def tensor(name: str, lengths: tuple[int, ...], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(lengths))
        + struct.pack(f"<{len(lengths)}QIQ", *lengths, kind, offset)
    )


HEADER: Final = b"GGUF" + struct.pack("<IQQ", 3, 2, 4)
METADATA: Final = (
    text("general.architecture")
    + struct.pack("<I", _STRING)
    + text("llama")
    + number("llama.context_length", 512)
    + number("general.alignment", 64)
    + text("tokenizer.ggml.tokens")
    + struct.pack("<IIQ", _ARRAY, _STRING, 2)
    + text("a")
    + text("b")
)
TENSORS: Final = tensor("norm", (8,), _F16, 0) + tensor("embedding", (32, 4), _Q8_0, 64)
ENTRIES: Final = HEADER + METADATA + TENSORS
PADDING: Final = b"\0" * (-len(ENTRIES) % 64)
#: 8 numbers of two bytes, up to the alignment; 4 rows of one block of 34 bytes.
WEIGHTS: Final = b"\1" * 64 + b"\2" * 4 * 34
WHOLE: Final = ENTRIES + PADDING + WEIGHTS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.gguf"


def test_a_whole_file_is_read(file: Path) -> None:
    file.write_bytes(WHOLE)
    assert read_model_length(file) == 512
    assert read_gguf_facts(file)["general.architecture"] == "llama"


def test_values_lists_and_tensors_are_what_the_file_holds(file: Path) -> None:
    file.write_bytes(WHOLE)
    assert read_gguf_facts(file)["general.architecture"] == "llama"
    model = GgufFile(file)
    assert model.architecture == "llama"
    assert model.metadata.integer("llama.context_length") == 512
    assert model.metadata.integer("llama.block_count", 7) == 7
    assert model.metadata.texts("tokenizer.ggml.tokens") == [b"a", b"b"]
    assert model.metadata.length("tokenizer.ggml.tokens") == 2
    assert model.kinds == {"F16": 1, "Q8_0": 1}
    embedding = model.tensors["embedding"]
    assert (embedding.shape, embedding.type.name) == ((4, 32), "Q8_0")
    assert embedding.rows(1, 3).tolist() == [[2] * 34] * 2
    assert model.tensors["norm"].rows().tolist() == [[1] * 16]


def test_a_value_of_another_type_is_named(file: Path) -> None:
    file.write_bytes(WHOLE)
    values = GgufFile(file).metadata
    wrong: list[tuple[Callable[[str], object], str, str]] = [
        (values.integer, "general.architecture", "must be a whole number, not 'llama'"),
        (values.number, "tokenizer.ggml.tokens", "must be a number, not a list of 2 values"),
        (values.text, "llama.context_length", "must be a text, not 512"),
        (values.flag, "llama.context_length", "must be true or false, not 512"),
        (values.texts, "llama.context_length", "must be a list of texts, not 512"),
        (values.numbers, "tokenizer.ggml.tokens", "must be a list of numbers"),
    ]
    for read, key, reason in wrong:
        with pytest.raises(ResourceError) as info:
            read(key)
        assert f'"m.gguf": the value "{key}" {reason}' in str(info.value)


def part(number: int, count: int, name: str, tensors: int = 2) -> bytes:
    """Return a part of a split model with one tensor."""
    values = (
        text("split.no")
        + struct.pack("<IH", _U16, number)
        + text("split.count")
        + struct.pack("<IH", _U16, count)
        + text("split.tensors.count")
        + struct.pack("<Ii", _I32, tensors)
    )
    first = text("general.architecture") + struct.pack("<I", _STRING) + text("llama")
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 3 if number else 4)
    entries = head + values + (b"" if number else first) + tensor(name, (8,), _F16, 0)
    return entries + b"\0" * (-len(entries) % 32) + bytes([number] * 16)


def test_a_split_model_is_read_from_any_of_its_parts(tmp_path: Path) -> None:
    files = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    for number, name in enumerate("ab"):
        files[number].write_bytes(part(number, 2, name))
    for each in files:
        model = GgufFile(each)
        assert model.architecture == "llama"
        assert [tensor.rows().tolist() for tensor in model.tensors.values()] == [
            [[0] * 16],
            [[1] * 16],
        ]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (None, "1 of them is not in its directory: m-00002-of-00002.gguf"),
        (part(1, 3, "b"), "says that it is one of 3 files of a model"),
        (part(0, 2, "b"), "says that it is part 0, counted from 0, and its name says 1"),
        (part(1, 2, "a"), 'the tensor "a" is there twice, here and in an earlier part'),
        (part(1, 2, "b")[:-1], "is only a part of a GGUF file"),
        (b"", "is not a GGUF file: it is empty"),
    ],
)
def test_a_part_that_is_missing_or_of_another_model_is_refused(
    tmp_path: Path, second: bytes | None, reason: str
) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(part(0, 2, "a"))
    if second is not None:
        first.with_name("m-00002-of-00002.gguf").write_bytes(second)
    with pytest.raises(ResourceError) as info:
        GgufFile(first)
    assert reason in str(info.value)


def test_parts_with_fewer_tensors_than_the_model_has_are_refused(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(part(0, 2, "a", tensors=3))
    first.with_name("m-00002-of-00002.gguf").write_bytes(part(1, 2, "b", tensors=3))
    with pytest.raises(ResourceError, match="hold 2 tensors, and the first one says 3"):
        GgufFile(first)


def test_a_part_under_another_name_says_what_its_name_should_be(file: Path) -> None:
    file.write_bytes(part(0, 2, "a"))
    with pytest.raises(ResourceError, match="they are found by their names"):
        GgufFile(file)


def huge(kind: int) -> bytes:
    """Return the beginning of a file of 1 GB that consists of one list or text."""
    if kind == _STRING:
        value = struct.pack("<IQ", _STRING, 1 << 30)
    elif kind == _STRING_LIST:
        value = struct.pack("<IIQ", _ARRAY, _STRING, 1 << 27)
    else:
        value = struct.pack("<IIQ", _ARRAY, kind, 1 << 30)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("much") + value


@pytest.mark.parametrize("kind", [_STRING, _STRING_LIST, _U8])
def test_a_gigabyte_of_metadata_is_refused_before_it_is_read(file: Path, kind: int) -> None:
    with file.open("wb") as stream:
        stream.write(huge(kind))
        stream.truncate((1 << 30) + (1 << 20))
    tracemalloc.start()
    with pytest.raises(ResourceError, match="much"):
        GgufFile(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def place_of(length: int) -> str:
    """Return the words of the error for a file that is cut to this length."""
    if not length:
        return "is not a GGUF file: it is empty"
    if length < 4:
        return "is not a GGUF file: it does not begin with the letters GGUF"
    if length < len(HEADER):
        return "is only a part of a GGUF file: it ends within its header"
    if length < len(HEADER + METADATA):
        return "is only a part of a GGUF file: it ends within its metadata"
    if length < len(ENTRIES):
        return "is only a part of a GGUF file: it ends within its list of tensors"
    return f"it has {length} bytes, and its weights end at byte {len(WHOLE)}"


def test_a_file_that_is_cut_anywhere_names_the_place(file: Path) -> None:
    for length in range(len(WHOLE)):
        file.write_bytes(WHOLE[:length])
        with pytest.raises(ResourceError) as info:
            read_gguf_facts(file)
        assert str(info.value).startswith('"m.gguf" ')
        assert place_of(length) in str(info.value), length


LIST: Final = struct.pack("<IIQ", _ARRAY, _STRING, 2)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"GGUF", b"GGML", "is not a GGUF file: it does not begin with the letters GGUF"),
        (b"GGUF\3", b"GGUF\1", "of version 1, and versions 2 and 3 can be read"),
        (b"GGUF\3\0\0\0", b"GGUF\0\0\0\3", "is big-endian"),
        (
            HEADER[8:],
            struct.pack("<QQ", 1 << 60, 4),
            "says that it has 1152921504606846976 tensors",
        ),
        (HEADER[8:], struct.pack("<QQ", 2, 1 << 60), "says that it has 1152921504606846976 values"),
        (
            number("general.alignment", 64),
            number("general.alignment", 0),
            'the value "general.alignment" must be a power of two from 8 to 1048576, not 0',
        ),
        (
            LIST,
            struct.pack("<IIQ", _ARRAY, 77, 2),
            'the value "tokenizer.ggml.tokens" is a list of the unknown type 77',
        ),
        (
            LIST,
            struct.pack("<IIQ", 77, _STRING, 2),
            'the value "tokenizer.ggml.tokens" is of the unknown type 77',
        ),
        (
            LIST,
            struct.pack("<IIQ", _ARRAY, _STRING, 1 << 62),
            'it ends within its metadata, at "tokenizer.ggml.tokens"',
        ),
        (
            LIST + text("a"),
            LIST + struct.pack("<Q", 1 << 60) + b"a",
            'it ends within its metadata, at "tokenizer.ggml.tokens"',
        ),
        (
            text("llama.context_length"),
            text("general.architecture"),
            'the value "general.architecture" is there twice',
        ),
        (text("embedding"), text("norm"), 'the tensor "norm" is there twice'),
        (
            text("norm") + struct.pack("<I", 1),
            text("norm") + struct.pack("<I", 1 << 31),
            'the tensor "norm" has 2147483648 dimensions; 4 are the most',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 1 << 63, 1 << 63, _Q8_0, 64),
            'with the tensor "embedding"',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 4, _Q8_0, 1 << 60),
            'with the tensor "embedding"',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 4, _Q8_0, 65),
            'the tensor "embedding" is at the offset 65, which is not a multiple of',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 4, _Q8_0, 0),
            'the tensors "norm" and "embedding" overlap',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 0, _Q8_0, 64),
            'the tensor "embedding" has a length of 0 in its shape [0, 32]',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 31, 4, _Q8_0, 64),
            "has rows of 31 weights, and Q8_0 has blocks of 32",
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 4, 99, 64),
            'has the tensor "embedding" of the type 99, which is not known',
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 32, 4, 31, 64),
            'has the tensor "embedding" of the type 31, which was taken out of the format',
        ),
    ],
)
def test_a_wrong_number_is_found(file: Path, old: bytes, new: bytes, reason: str) -> None:
    assert WHOLE.count(old) == 1
    file.write_bytes(WHOLE.replace(old, new))
    with pytest.raises(ResourceError) as info:
        read_gguf_facts(file)
    assert reason in str(info.value)


def test_any_wrong_byte_gives_a_reason_or_none_at_all(file: Path) -> None:
    choice = random.Random(1)
    reasons: list[str] = []
    for place in range(len(ENTRIES)):
        wrong = bytearray(WHOLE)
        wrong[place] = choice.choice([0, 1, 0x7F, 0x80, 0xFF])
        file.write_bytes(wrong)
        try:
            read_gguf_facts(file)
        except ResourceError as error:
            reasons.append(str(error))
    assert len(reasons) > len(ENTRIES) / 2
    assert all(reason.startswith('"m.gguf" ') for reason in reasons)


def test_nested_lists_without_an_end_are_damage(file: Path) -> None:
    deep = struct.pack("<IQ", _ARRAY, 1) * 5000
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    file.write_bytes(header + text("deep") + struct.pack("<I", _ARRAY) + deep)
    with pytest.raises(ResourceError, match='the value "deep" is lists in lists in lists'):
        read_gguf_facts(file)
