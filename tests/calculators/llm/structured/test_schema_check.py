"""What is no JSON schema is refused, with its place; what is one is not."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.http_payload import RequestError
from calculators.llm.openai.json_schema import check_schema


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
def test_schemas(schema: dict[str, Any]) -> None:
    check_schema(schema, "s")


@pytest.mark.parametrize(
    ("schema", "param"),
    [
        ("x", "s"),
        ({"type": "something"}, "s.type"),
        ({"type": 5}, "s.type"),
        ({"properties": {"a": {"type": "Text"}}}, "s.properties.a.type"),
        ({"properties": []}, "s.properties"),
        ({"items": [{"type": "no"}]}, "s.items[0].type"),
        ({"anyOf": {"type": "string"}}, "s.anyOf"),
        ({"oneOf": [{"not": {"type": "string"}}]}, "s.oneOf[0].not"),
        ({"properties": {"a": {"uniqueItems": True}}}, "s.properties.a.uniqueItems"),
        ({"properties": {str(i): {} for i in range(1001)}}, "s"),
        ({"pattern": "("}, "s.pattern"),
        ({"pattern": "{{ x }}"}, "s.pattern"),
        ({"pattern": "a}"}, "s.pattern"),
        ({"pattern": "({2})"}, "s.pattern"),
        ({"pattern": 1}, "s.pattern"),
    ],
)
def test_what_is_no_schema(schema: object, param: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_schema(schema, "s")
    assert raised.value.param == param


def test_depth_is_limited() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"items": schema}
    with pytest.raises(RequestError, match="deeper"):
        check_schema(schema, "s")
