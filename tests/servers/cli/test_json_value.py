"""Values as JSON, both ways."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from enum import Enum, IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_runtime import Packet, Timestamp
from graph_runtime import timestamp as ts
from servers.cli.json_value import (
    decode_time,
    decode_value,
    encode_time,
    encode_value,
    parse_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_printed_can_be_fed(value: Any) -> None:
    text = json.dumps(encode_value(value), allow_nan=False)
    assert _same(decode_value(parse_json(text)), value)


def _same(got: Any, value: Any) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return bool(got == {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN"))
    if isinstance(value, list):
        return len(got) == len(value) and all(map(_same, got, value))
    if isinstance(value, dict):
        return got.keys() == value.keys() and all(_same(got[key], value[key]) for key in value)
    return type(got) is type(value) and bool(got == value)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("int", 3, 3),
        ("int64", -(2**63), -(2**63)),
        ("uint32", 2**32 - 1, 2**32 - 1),
        ("float", 1, 1.0),
        ("double", "-Infinity", -math.inf),
        ("bool", True, True),
        ("string", "x", "x"),
        ("std::string", "x", "x"),
        ("bytes", "YWI=", b"ab"),
        ("vector<int>", [], []),
        ("vector<float>", [1, 2.5], [1.0, 2.5]),
        ("std::vector<vector<float>>", [[1]], [[1.0]]),
        ("Timestamp", "MAX", Timestamp.MAX),
        ("Timestamp", 5, Timestamp(5)),
        ("pair", [1, "a"], (1, "a")),
        ("set", [1, 2, 1], {1, 2}),
        ("map", [[1, "a"]], {1: "a"}),
        ("dict", {"type": "x", "value": 1}, {"type": "x", "value": 1}),
    ],
)
def test_types_that_json_has_not(kind: str, value: Any, wanted: Any) -> None:
    got = decode_value({"type": kind, "value": value})
    assert got == wanted
    assert type(got) is type(wanted)
    assert decode_value([{"type": kind, "value": value}]) == [wanted]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int", 1.5, "int needs a JSON integer, not 1.5"),
        ("int", True, "int needs a JSON integer, not true"),
        ("int32", 2**31, "must lie in -2147483648 .. 2147483647"),
        ("uint64", -1, "must lie in 0 .. "),
        ("float", "1", "float needs a number"),
        ("bytes", "?", "bytes are written in base64"),
        ("vector<int>", 1, "needs a JSON array"),
        ("vector<int>", ["a"], "int needs a JSON integer"),
        ("map", [1], "map needs [key, value] pairs"),
        ("strng", "x", 'Did you mean "string"'),
        ("mediapipe.GateCalculatorOptions", {"alow": True}, "no mediapipe.GateCalculatorOptions"),
    ],
)
def test_values_that_do_not_fit_their_type(kind: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        decode_value({"type": kind, "value": value})
    assert message in str(raised.value)


def test_messages_go_both_ways() -> None:
    fields = {"allow": True, "initial_gate_state": "GATE_ALLOW"}
    message = decode_value({"type": "mediapipe.GateCalculatorOptions", "value": fields})
    assert message.DESCRIPTOR.full_name == "mediapipe.GateCalculatorOptions"
    assert message.allow is True
    assert encode_value(message) == fields


class Level(IntEnum):
    LOW = 1


class Kind(Enum):
    A = "a"


Pair = namedtuple("Pair", "left right")


class Both(msgspec.Struct):
    left: int
    right: object


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Array:
    dtype = "float32"

    def tolist(self) -> list[float]:
        return [1.0, math.nan]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (Timestamp(3), 3),
        (Timestamp.POSTSTREAM, "POSTSTREAM"),
        (Level.LOW, 1),
        (Kind.A, "a"),
        (Pair(1, 2), [1, 2]),
        (Both(1, Packet(2)), {"left": 1, "right": 2}),
        ((Packet(1, 0), Packet.empty(0)), [1, None]),
        ({1: "a"}, {"type": "map", "value": [[1, "a"]]}),
        ({3, 1, 2}, {"type": "set", "value": [1, 2, 3]}),
        (Array(), [1.0, "NaN"]),
        (bytearray(b"\x00"), {"type": "bytes", "value": "AA=="}),
        (Unprintable(), {"type": f"{__name__}.Unprintable", "repr": "<no repr>"}),
        (1j, {"type": "complex", "repr": "1j"}),
    ],
)
def test_values_of_calculators(value: Any, wanted: Any) -> None:
    assert encode_value(value) == wanted


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    found = encode_value(loop)
    while isinstance(found, list):
        (found,) = found
    assert found == {"type": "list", "repr": "[[...]]"}


def test_of_an_integer_of_thousands_of_digits_the_beginning_is_printed() -> None:
    assert encode_value(10**5000)["repr"].startswith("'0x31e20801036510f3c591fde5361dc61998")


@pytest.mark.parametrize("name", ts.SPECIAL_NAMES.values())
def test_special_timestamps_have_names(name: str) -> None:
    assert encode_time(decode_time(name)) == name


@pytest.mark.parametrize("value", ["max", 1.5, True, None, 2**63 - 1, [0]])
def test_what_is_no_timestamp(value: Any) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        decode_time(value)
