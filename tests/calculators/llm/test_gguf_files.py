"""GGUF files that are not whole, or not right: each is refused by name, and never half read."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Final

import pytest

from calculators.llm.model_files.gguf import read_gguf_facts, read_gguf_model
from graph_runtime import ResourceError

_U32, _STRING, _ARRAY = 4, 8, 9
_F16, _Q4_1, _Q8_0 = 1, 3, 8


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
    assert read_gguf_model(file) == (512, ())
    assert read_gguf_facts(file)["general.architecture"] == "llama"


def test_weights_that_the_engine_rounds_are_named(file: Path) -> None:
    tensors = tensor("norm", (8,), _F16, 0) + tensor("embedding", (32, 4), _Q4_1, 64)
    entries = HEADER + METADATA + tensors
    file.write_bytes(entries + b"\0" * (-len(entries) % 64) + b"\1" * (64 + 4 * 20))
    assert read_gguf_model(file).rounded == ("Q4_1",)


def place_of(length: int) -> str:
    """Return the words of the error for a file that is cut to this length."""
    if not length:
        return "is no GGUF file: it is empty"
    if length < 4:
        return "is no GGUF file: it does not begin with the letters GGUF"
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


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"GGUF", b"GGML", "is no GGUF file: it does not begin with the letters GGUF"),
        (b"GGUF\3", b"GGUF\1", "of version 1, and versions 2 and 3 can be read"),
        (b"GGUF\3\0\0\0", b"GGUF\0\0\0\3", "of version 50331648, and versions 2 and 3 can be read"),
        (number("general.alignment", 64), number("general.alignment", 0), "damaged GGUF file: its"),
        (
            struct.pack("<IIQ", _ARRAY, _STRING, 2),
            struct.pack("<IIQ", _ARRAY, 77, 2),
            "damaged GGUF file: its metadata cannot be read",
        ),
        (
            struct.pack("<IIQ", _ARRAY, _STRING, 2),
            struct.pack("<IIQ", _ARRAY, _STRING, 1 << 62),
            "is only a part of a GGUF file",
        ),
        (
            text("norm") + struct.pack("<I", 1),
            text("norm") + struct.pack("<I", 1 << 31),
            "damaged GGUF file: its list of tensors cannot be read",
        ),
        (
            struct.pack("<QQIQ", 32, 4, _Q8_0, 64),
            struct.pack("<QQIQ", 1 << 63, 1 << 63, _Q8_0, 64),
            "its weights end at byte",
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
            read_gguf_model(file)
        except ResourceError as error:
            reasons.append(str(error))
    assert len(reasons) > len(ENTRIES) / 2
    assert all(reason.startswith('"m.gguf" ') for reason in reasons)


def test_nested_lists_without_an_end_are_damage(file: Path) -> None:
    deep = struct.pack("<IQ", _ARRAY, 1) * 5000
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    file.write_bytes(header + text("deep") + struct.pack("<I", _ARRAY) + deep)
    with pytest.raises(ResourceError, match="damaged GGUF file: its metadata cannot be read"):
        read_gguf_facts(file)
