"""Declared members: one pass reads them, and the schema describes what is read."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    Enumeration,
    Integer,
    Number,
    Value,
    body_schema,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)

KNOWN = table(
    honoured("size", Integer(minimum=1, maximum=8), "How many.", is_required=True),
    honoured("warmth", Number(minimum=0, below=1)),
    honoured("side", Enumeration(("left", "right"))),
    honoured("is_open", BOOLEAN),
    ignored("changes nothing", "colour"),
    refused("is not supported; use size", "volume"),
    refused("is not supported", "weights", may_be_empty=True),
)


def test_values_are_those_that_readers_return() -> None:
    body = {"size": 3, "warmth": 0, "side": "left", "is_open": False}
    read = read_members(body, KNOWN)
    assert read == {"size": 3, "warmth": 0.0, "side": "left", "is_open": False}
    assert type(read["warmth"]) is float


def test_null_and_members_without_effect_are_left_out() -> None:
    assert read_members({"size": 3, "warmth": None, "colour": "red", "other": None}, KNOWN) == {
        "size": 3
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"size": 9}, 'Invalid value for "size": 9 is above the maximum 8'),
        ({"size": 0}, 'Invalid value for "size": 0 is below the minimum 1'),
        ({"size": 1.5}, 'Invalid value for "size": expected an integer, got 1.5'),
        ({"size": True}, 'Invalid value for "size": expected an integer, got true'),
        ({"warmth": 1}, 'Invalid value for "warmth": 1 is not below 1'),
        ({"side": "up"}, 'Invalid value for "side": the string "up" is none of "left", "right"'),
        ({"is_open": 1}, 'Invalid value for "is_open": expected true or false, got 1'),
        ({"volume": 0}, 'Invalid value for "volume": the member is not supported; use size'),
        ({"weights": [1]}, 'Invalid value for "weights": the member is not supported'),
        ({"siz": 1}, 'Unknown member "siz". Did you mean "size"?'),
        ({"size": 9, "siz": 1}, 'Unknown member "siz". Did you mean "size"?'),
    ],
)
def test_errors_name_the_member_and_the_remedy(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_members(body, KNOWN)
    assert str(raised.value) == message
    assert raised.value.param in body


@pytest.mark.parametrize("nothing", [None, False, "", []])
def test_a_refused_member_is_accepted_when_it_requests_nothing(nothing: object) -> None:
    assert read_members({"volume": nothing, "weights": {}}, KNOWN) == {}


def test_only_present_members_are_read() -> None:
    read: list[str] = []

    def note(value: Any, path: str) -> Any:
        read.append(path)
        return value

    known = table(honoured(name, Value(check=note)) for name in ("a", "b", "c"))
    read_members({"b": 1, "c": None}, known)
    assert read == ["b"]


def test_a_later_declaration_replaces_an_earlier_one() -> None:
    known = table(KNOWN, honoured("colour", Enumeration(("red",))))
    assert read_members({"colour": "red"}, known) == {"colour": "red"}
    assert read_members({"colour": "red"}, KNOWN) == {}


def test_the_schema_describes_every_member_as_it_is_read() -> None:
    schema = body_schema(KNOWN)
    assert schema["required"] == ["size"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties.keys() == KNOWN.keys()
    assert properties["size"] == {
        "type": "integer",
        "description": "How many.",
        "minimum": 1,
        "maximum": 8,
    }
    assert properties["warmth"] == {
        "type": ["number", "null"],
        "minimum": 0,
        "exclusiveMaximum": 1,
    }
    assert properties["side"]["enum"] == ["left", "right", None]
    assert properties["colour"] == {"description": "Without effect: it changes nothing."}
    nothing: list[Any] = [None, False, "", []]
    for name, several in (("volume", nothing), ("weights", [*nothing, {}])):
        taken = Draft202012Validator(properties[name])
        assert all(taken.is_valid(each) for each in several)
        something: list[Any] = [True, 0, "a", [1], {"a": 1}]
        assert not any(taken.is_valid(each) for each in something)
    assert not Draft202012Validator(properties["volume"]).is_valid({})
