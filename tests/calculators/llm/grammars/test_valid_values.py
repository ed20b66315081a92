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
