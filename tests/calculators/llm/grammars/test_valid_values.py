"""Texts of a schema's rules, given one by one: the valid ones are written, the others are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.calculators.llm.grammars.derivations import Derivations
from tests.calculators.llm.grammars.test_corpora import grammar_of

OF_A_DEPENDENCY = {"dependentRequired": {"a": ["b"]}}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        # A bound of 0 is a bound, for listed values too.
        ({"exclusiveMinimum": 0, "enum": [-1, 0, 1]}, [1], [-1, 0]),
        ({"exclusiveMaximum": 0, "enum": [-1, 0, 1]}, [-1], [0, 1]),
        ({"exclusiveMinimum": 0, "anyOf": [{"const": 0}, {"const": 2.5}]}, [2.5], [0]),
        ({"minimum": 0, "exclusiveMinimum": False, "enum": [-1, 0]}, [0], [-1]),
        # Keywords of objects do not concern other values.
        ({"type": ["string", "integer"], **OF_A_DEPENDENCY}, ["x", 7], [{}]),
        ({"type": ["object", "null"], "properties": {"a": {}, "b": {}}, **OF_A_DEPENDENCY},
         [None, {}, {"b": 1}, {"a": 1, "b": 2}], [{"a": 1}]),
        ({"type": "integer", "dependentSchemas": {"a": {"required": ["b"]}}}, [7], []),
        # More properties than are named.
        ({"type": "object", "minProperties": 1, "properties": {}}, [{"x": 1}], [{}]),
        ({"type": "object", "minProperties": 2, "properties": {"a": {"type": "null"}}},
         [{"a": None, "x": 1}, {"x": 1, "y": 2}], [{}, {"a": None}]),
        # Names that cannot be.
        ({"type": "object", "propertyNames": {"pattern": "^$"}, "properties": {"a": {}},
          "additionalProperties": {"type": "null"}}, [{}], [{"a": 1}]),
        ({"type": "object", "propertyNames": False}, [{}], [{"a": 1}]),
        # Identifiers of several drafts.
        ({"$id": "urn:example:tree", "$defs": {"n": {"$anchor": "n", "type": "null"}},
          "anyOf": [{"$ref": "#n"}, {"$ref": "urn:example:tree#/$defs/n"}]}, [None], [1]),
        ({"$id": "urn:example:tree", "$ref": "#/$defs/n", "$defs": {"n": {"const": 1}}}, [1], [2]),
        ({"definitions": {"n": {"$id": "#n", "const": 1}}, "$ref": "#n"}, [1], [2]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a.example/root.json",
          "definitions": {"n": {"id": "n.json", "enum": [1]}},
          "allOf": [{"$ref": "http://a.example/n.json"}]}, [1], [2]),
        ({"id": "a name", "properties": {"b": {"id": "b", "$ref": "#/definitions/n"}},
          "definitions": {"n": {"const": 1}}}, [{"b": 1}], [{"b": 2}]),
        # A pattern and a format that no text has together, as zod's times without a zone.
        ({"type": "string", "format": "time", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$"},
         ["12:34"], ["12:34:56Z", "24:00"]),
        # Patterns and formats with lengths.
        ({"type": "string", "format": "email", "minLength": 5, "maxLength": 50},
         ["ann.b@mail.example.org"], ["a@b", "a" * 50 + "@b.org"]),
        ({"type": "string", "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$", "maxLength": 64},
         ["a-long-article-title-2"], ["a--b", "-".join(["abcdef"] * 10)]),
        ({"type": "string", "pattern": "^https?://.+", "maxLength": 200},
         ["http://a", "https://b.example/" + "c" * 170], ["ftp://a", "http://" + "c" * 194]),
        ({"type": "string", "pattern": r"\S", "maxLength": 10},
         ["x", "a b c d e "], ["", " ", "a b c d e f"]),
        ({"type": "string", "pattern": r"^arn:[a-z-]*:[0-9]+:.+$", "maxLength": 60},
         ["arn:aws:12:x y"], ["arn:aws::x", "arn:aws:12:" + "x" * 60]),
        ({"type": "string", "pattern": r"^-?\d+(\.\d+)?$", "minLength": 3, "maxLength": 5},
         ["123", "-12.5"], ["12", "123.45"]),
        # Multiples whose last digits tell most.
        ({"type": "integer", "multipleOf": 1000}, [0, 5000, -123000], [100, 1001]),
        ({"type": "integer", "multipleOf": 86400, "minimum": 0}, [86400, 864000], [86401, -86400]),
        ({"type": "number", "multipleOf": 1024}, [2048, -1024], [512, 1024.5]),
        ({"type": "number", "multipleOf": 0.00025}, [0.5, 1.00025], [0.00026]),
        # OpenAPI 3.0's null.
        ({"type": "string", "nullable": True, "maxLength": 2}, [None, "ab"], ["abc", 1]),
        ({"type": "string", "nullable": True, "enum": ["a"]}, [None, "a"], ["b"]),
        ({"type": "string", "nullable": False}, ["a"], [None]),
        ({"type": "object", "required": ["a"],
          "properties": {"a": {"nullable": True, "allOf": [{"$ref": "#/$defs/n"}]}},
          "$defs": {"n": {"type": "object", "properties": {
              "next": {"$ref": "#/$defs/n", "nullable": True}}, "required": ["next"]}}},
         [{"a": None}, {"a": {"next": None}}, {"a": {"next": {"next": None}}}], [{}, {"a": 1}]),
        ({"oneOf": [{"type": "string", "nullable": True}, {"type": "integer"}]},
         [None, "a", 1], [True]),
        ({"type": ["string", "null", "integer"], "not": {"type": "string", "nullable": True}},
         [1], [None, "a"]),
        ({"enum": [1, None, "a"], "oneOf": [{"type": "integer", "nullable": True}]},
         [1, None], ["a"]),
        # Escapes of ECMA 262.
        ({"type": "string", "pattern": r"^\cJ\ca$"}, ["\n\x01"], ["cJca", "Ja"]),
    ],
)  # fmt: skip
def test_valid_values_are_written_and_others_are_not(
    schema: dict[str, Any], valid: list[Any], invalid: list[Any]
) -> None:
    grammar, notices = grammar_of(schema, is_strict=True)
    assert not notices
    derivations = Derivations(grammar)
    assert [each for each in valid if derivations.matches(json.dumps(each))] == valid
    assert not [each for each in invalid if derivations.matches(json.dumps(each))]


def test_what_is_valid_by_two_of_several_schemas_is_not_written_where_only_one_may_be() -> None:
    # The first can be negated, the second cannot, whichever stands first.
    named = {"type": "object", "properties": {"a": {"type": "array"}}}
    open_names = {"additionalProperties": {"type": "null"}}
    for branches in ([named, open_names], [open_names, named]):
        schema = {"oneOf": branches}
        assert list(grammar_of(schema)[1]) == [".oneOf"]
