"""Answers by a JSON schema are valid by it, whatever the model would prefer to write."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from calculators.llm.grammars import formats
from calculators.llm.grammars.rules import Rules
from calculators.llm.grammars.schema_document import SchemaError
from calculators.llm.grammars.schema_rules import SchemaRules, schema_grammar
from calculators.llm.grammars.schema_scalars import PATTERNS
from tests.calculators.llm.grammars.answers import Answers, schema_of

NODE = schema_of(v={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})
SHORT = {"type": "string", "maxLength": 9}

SCHEMAS: dict[str, Any] = {
    "properties": schema_of(name=SHORT, age={"type": "integer"}),
    "optional": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"const": [1, {}]}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "all optional": {"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}},
    "additional": {**schema_of(a={"type": "boolean"}), "additionalProperties": {"type": "null"}},
    "required without a property": {"type": "object", "required": ["q"]},
    "map": {
        "type": "object",
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9},
        "propertyNames": {"enum": ["p", "q", "r"]},
        "minProperties": 1,
        "maxProperties": 3,
    },
    "pattern properties": {
        "type": "object",
        "patternProperties": {"^x_[a-z]{1,3}$": {"type": "boolean"}},
    },
    "numbers": schema_of(
        a={"type": "integer", "minimum": -3, "exclusiveMaximum": 12},
        b={"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
    ),
    "array": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5},
    "tuple": {
        "type": "array",
        "prefixItems": [{"const": 1}, {"type": "null"}],
        "items": {"const": "k"},
        "minItems": 3,
        "maxItems": 4,
    },
    "recursion": {"$defs": {"n": NODE}, "$ref": "#/$defs/n"},
    "enum": {"type": ["string", "null"], "enum": ["x", 'y"z\\', None, 7, "é\n"]},
    "one of": {
        "oneOf": [
            schema_of(kind={"const": "a"}, x={"type": "boolean"}),
            schema_of(kind={"enum": ["b", "c"]}),
        ]
    },
    "any of beside": {
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"const": 2}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all of": {"allOf": [schema_of(a={"const": 1}), {"properties": {"b": {"const": 2}}}]},
    "reference with more beside": {
        "$defs": {"a": schema_of(x={"type": "boolean"})},
        "$ref": "#/$defs/a",
        "required": ["x"],
        "description": "as pydantic writes it",
    },
    "pattern": {"type": "string", "pattern": '^[A-Z"\\\\\\n]{3}[^a]{2}$'},
    "annotations": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "x",
        "title": "T",
        **schema_of(a={"type": "boolean", "default": True, "examples": [1], "deprecated": True}),
    },
    # A model of random words does not end an address.
    **{
        f"format {name}": {"type": "string", "format": name} for name in PATTERNS if name != "email"
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_are_valid(answers: Answers, name: str) -> None:
    schema = SCHEMAS[name]
    validator = jsonschema.Draft202012Validator(schema)
    for text in answers.several(formats.json_schema(schema, "")):
        validator.validate(json.loads(text))


def test_an_object_without_properties_may_be_any_object(answers: Answers) -> None:
    form = formats.json_schema({"type": "object"}, "")
    assert all(isinstance(json.loads(text), dict) for text in answers.several(form, 20))


def test_answers_follow_formats(answers: Answers) -> None:
    form = formats.json_schema({"type": "string", "format": "date-time"}, "")
    for text in answers.several(form):
        assert re.fullmatch(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*(Z|[+-]\d\d:\d\d)"', text)


@pytest.mark.parametrize(
    ("schema", "place", "why"),
    [
        ({"$ref": "file:///etc/passwd"}, ".$ref", "only references inside the schema"),
        ({"$ref": "#/$defs/x"}, ".$ref", "leads nowhere"),
        ({"$ref": "#"}, ".$ref", "without a way out"),
        (schema_of(a={"$ref": "#"}), "", "without a way out"),
        ({"enum": []}, ".enum", "expected an array with values"),
        ({"not": {}}, "", "no value is valid"),
        ({"type": "integer", "minimum": 10, "maximum": 1}, "", "no integer lies between"),
        ({"type": "integer", "multipleOf": 0}, ".multipleOf", "above 0"),
        ({"type": "string", "minLength": 2**25}, ".minLength", "above the maximum 16777216"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, ".maxLength", "above maxLength"),
        ({"type": "string", "pattern": "^a$", "minLength": 2}, "", "no string is valid"),
        ({"type": "array", "minItems": 10**9}, ".minItems", "above the maximum 100000"),
        ({"const": "\ud800"}, ".const", "cannot be written"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ".allOf[1].type", "excludes the types"),
        ({"allOf": [{"enum": [1, 2]}, {"enum": [3]}]}, ".allOf[0].enum", "none of the values"),
        (False, "", "no value is valid"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, ".required", "not"),
        (
            {"properties": {"a": {}}, "additionalProperties": False, "minProperties": 2},
            ".minProperties",
            "no object has so many",
        ),
    ],
)
def test_schemas_without_values_are_refused_with_the_place(
    schema: Any, place: str, why: str
) -> None:
    with pytest.raises(SchemaError, match=re.escape(why)) as raised:
        schema_grammar(schema)
    assert raised.value.place == place


@pytest.mark.parametrize(
    ("schema", "place", "why"),
    [
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            ".uniqueItems",
            "only",
        ),
        ({"type": "string", "format": "uri-template"}, ".format", "not supported"),
        ({"type": "string", "pattern": r"(a)\1"}, ".pattern", "back references"),
        (
            schema_of(a={"type": "string", "pattern": "a.{40}$"}),
            ".properties.a.pattern",
            "too much",
        ),
        ({"type": "integer", "multipleOf": 1009}, ".multipleOf", "remember too much"),
        ({"not": {"uniqueItems": True}}, ".not", "cannot exclude"),
        ({"oneOf": [{"minLength": 1}, {"format": "date"}]}, ".oneOf", "read as anyOf"),
        ({"oneOf": [{"format": "date"}, {"minLength": 1}]}, ".oneOf", "read as anyOf"),
        (
            {"type": "string", "pattern": "^(?:[a-z]+ )+[0-9]+$", "maxLength": 900},
            ".maxLength",
            "cannot be counted",
        ),
    ],
)
def test_what_rules_cannot_express_is_left_out_and_named(schema: Any, place: str, why: str) -> None:
    rules = Rules()
    made = SchemaRules(schema, rules, is_strict=False)
    assert rules.text(made.root())
    assert list(made.notices) == [place]
    assert why in made.notices[place]
    with pytest.raises(SchemaError, match=re.escape(why)) as raised:
        schema_grammar(schema, is_strict=True)
    assert raised.value.place == place


def test_an_alternative_that_never_ends_is_left_out(answers: Answers) -> None:
    endless = schema_of(a={"$ref": "#/$defs/e"})
    schema = {"$defs": {"e": endless}, "anyOf": [{"$ref": "#/$defs/e"}, {"const": "end"}]}
    assert set(answers.several(formats.json_schema(schema, ""))) == {'"end"'}


def test_required_names_without_a_property_come_in_the_order_of_required() -> None:
    names = ["d", "b", "c", "a", "f", "e"]
    grammar = schema_grammar({"type": "object", "required": names})
    assert re.findall(r"\\u0022([a-f])\\u0022", grammar) == names
