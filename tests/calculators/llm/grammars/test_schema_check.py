"""Checks of JSON schemas: wrong ones are refused with the place, right ones are not."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from calculators.llm.grammars.schema_document import SchemaError, check_schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}},
        {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"enum": [1, "a"]}}},
        {"items": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "string", "pattern": r"^[a-z{}]{2,5}\{x\}(ab){3}$"}, {"const": 1}]},
        {"properties": {"type": {"type": "string"}, "pattern": {"type": "string"}}},
        {"pattern": r"[]{}]\d{4}-\d{2}"},
    ],
)
def test_valid_schemas_are_accepted(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("x", ""),
        ({"type": "something"}, ".type"),
        ({"type": 5}, ".type"),
        ({"properties": {"a": {"type": "Text"}}}, ".properties.a.type"),
        ({"properties": []}, ".properties"),
        ({"items": [{"type": "no"}]}, ".items[0].type"),
        ({"anyOf": {"type": "string"}}, ".anyOf"),
        ({"dependentRequired": {"a": "b"}}, ".dependentRequired.a"),
        ({"oneOf": [{"not": {"pattern": "("}}]}, ".oneOf[0].not.pattern"),
        ({"properties": {str(i): {} for i in range(1001)}}, ""),
        ({"pattern": "("}, ".pattern"),
        ({"pattern": "{{ x }}"}, ".pattern"),
        ({"pattern": "a}"}, ".pattern"),
        ({"pattern": "({2})"}, ".pattern"),
        ({"pattern": 1}, ".pattern"),
    ],
)
def test_invalid_schemas_are_refused_with_the_place(schema: object, place: str) -> None:
    with pytest.raises(SchemaError) as raised:
        check_schema(schema)
    assert raised.value.place == place


@pytest.mark.parametrize("index", ["00", "01", "-0", "+0", "0 ", "0_0", "\u0660", "9" * 5000, "1"])
def test_an_index_in_a_reference_is_one_of_rfc_6901(index: str) -> None:
    schema = {"anyOf": [{"type": "string"}], "$ref": f"#/anyOf/{index}"}
    with pytest.raises(SchemaError, match="leads nowhere") as raised:
        check_schema(schema)
    assert raised.value.place == ".$ref"
    check_schema({**schema, "$ref": "#/anyOf/0"})


def test_long_keys_make_no_long_places() -> None:
    # With a text for each place this would take two gigabytes.
    wide = {"type": "object", "properties": {"k" * 100_000: {"anyOf": [{}] * 20_000}}}
    tracemalloc.start()
    check_schema(wide)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000


def test_depth_is_limited() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    with pytest.raises(SchemaError, match="deeper"):
        check_schema(schema)
