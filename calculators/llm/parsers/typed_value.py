"""From the text of an argument to JSON, by the schema of the tool.

What the schema says is text stays as it is, whatever it looks like. Anything else is JSON, else
what Python would read, else text; where the schema allows texts and more, it is what it is only if
the schema allows that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from calculators.llm.parsers.json_scanner import compact_json
from calculators.llm.parsers.python_value import python_to_json

_COMBINATIONS: Final = ("anyOf", "oneOf", "allOf")
#: What may allow other types than ``type`` does.
_WIDER: Final = (*_COMBINATIONS, "nullable")
#: Combinations and references within each other: schemas of tools have two or three.
_DEEPEST: Final = 8
_ONLY: Final = {
    each: frozenset((each,))
    for each in ("string", "integer", "number", "boolean", "object", "array", "null")
}
_ANY: Final = frozenset[str]()
_WORDS: Final = {"true": "boolean", "false": "boolean", "none": "null", "null": "null"}
_FIRST: Final = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean"}
#: What only Python reads, by its beginning: other text is no value.
_PYTHON: Final = re.compile(r"[\[{('\"]|(?:True|False|None)\Z|[+-]?[\d.][\w.+-]*\Z")
_ZEROS: Final = re.compile(r"[+-]?0\d{1,300}")


class ArgumentSchema(NamedTuple):
    """A part of the schema of a tool, and the whole, in which references lead."""

    part: object
    whole: object

    @property
    def node(self) -> Mapping[str, Any]:
        """The part, after its references; empty where it says nothing."""
        part, steps = self.part, 0
        # Nearly all are; abstract classes take long to ask.
        if type(part) is dict and "$ref" not in part:
            return part
        while isinstance(part, Mapping) and "$ref" in part and steps < _DEEPEST:
            part = _referred(self.whole, part["$ref"])
            steps += 1
        return part if isinstance(part, Mapping) else {}


EMPTY: Final = ArgumentSchema(None, None)


def _referred(whole: object, reference: object) -> object:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    part = whole
    for step in reference[2:].split("/"):
        if not isinstance(part, Mapping):
            return None
        part = part.get(step.replace("~1", "/").replace("~0", "~"))
    return part


def _branches(schema: ArgumentSchema, depth: int) -> Sequence[ArgumentSchema]:
    node = schema.node
    if not depth or node.keys().isdisjoint(_COMBINATIONS):
        return ()
    found = (node.get(word) for word in _COMBINATIONS)
    lists = [each for each in found if isinstance(each, list)]
    return [ArgumentSchema(branch, schema.whole) for each in lists for branch in each]


def property_schema(schema: ArgumentSchema, key: str, depth: int = _DEEPEST) -> ArgumentSchema:
    """Return the schema of a member of an object, also where a branch of a combination has it."""
    properties = schema.node.get("properties")
    if (type(properties) is dict or isinstance(properties, Mapping)) and key in properties:
        return ArgumentSchema(properties[key], schema.whole)
    for branch in _branches(schema, depth):
        found = property_schema(branch, key, depth - 1)
        if found is not EMPTY:
            return found
    return EMPTY


def item_schema(schema: ArgumentSchema) -> ArgumentSchema:
    """Return the schema of the items of an array."""
    items = schema.node.get("items")
    return EMPTY if items is None else ArgumentSchema(items, schema.whole)


def types_of(schema: ArgumentSchema, depth: int = _DEEPEST) -> frozenset[str]:
    """Return the types of JSON that a value may have; empty where anything is allowed."""
    node = schema.node
    if not node:
        return _ANY
    declared = node.get("type")
    found = set[str]()
    if isinstance(declared, str):
        if declared != "any" and node.keys().isdisjoint(_WIDER):
            return _ONLY.get(declared) or frozenset((declared,))
        found = {declared}
    elif isinstance(declared, list):
        found = {each for each in declared if isinstance(each, str)}
    has_type = bool(found)
    for branch in _branches(schema, depth):
        found |= types_of(branch, depth - 1) or {"any"}
    if not found:
        values = node.get("enum")
        if isinstance(values, list):
            found = {_type_of(json.dumps(each)) for each in values}
        elif "const" in node:
            found = {_type_of(json.dumps(node["const"]))}
    elif has_type:
        found.discard("any")
    if found and node.get("nullable") is True:
        found.add("null")
    return frozenset() if "any" in found and "string" not in found else frozenset(found)


def _type_of(value: str) -> str:
    """Return the type of a JSON text."""
    if value == "null":
        return "null"
    first = _FIRST.get(value[:1])
    if first is not None:
        return first
    return "integer" if value.lstrip("-").isdigit() else "number"


def typed_json(text: str, schema: ArgumentSchema) -> str:
    """Return the JSON of the text of an argument."""
    types = types_of(schema)
    if types == {"string"}:
        return encode_basestring(text)
    bare = text.strip()
    if types == {"string", "null"}:
        return bare if bare == "null" else encode_basestring(text)
    word = _WORDS.get(bare.lower())
    if word == "boolean" and word in types:
        return bare.lower()
    if word == "null" and word in types and bare in ("null", "None"):
        return "null"
    value = compact_json(bare)
    if value is None:
        if _ZEROS.fullmatch(bare) and types and types <= {"integer", "number", "null"}:
            return str(int(bare))
        # Nothing tells a word from a text where the request does not have the tool.
        if not _PYTHON.match(bare) or (schema.whole is None and bare[0] not in "[{("):
            return encode_basestring(text)
        value = python_to_json(bare)
        is_text = value[0] == '"' and bare[0] not in "\"'"
        if is_text or (bare[0] not in "[{" and not _allows(types, value)):
            return encode_basestring(text)
    elif "string" in types and not _allows(types, value):
        return encode_basestring(text)
    return value


def _allows(types: frozenset[str], value: str) -> bool:
    if not types or "any" in types:
        return True
    kind = _type_of(value)
    return kind in types or (kind == "integer" and "number" in types)


def retyped(value: str, text: str, schema: ArgumentSchema) -> str:
    """Return the JSON of a value that its form has typed, as the schema wants it.

    A quoted value of an argument that is no text is what is between the quotes; a bare one of an
    argument that is only text is that text.

    Args:
        value: as JSON.
        text: as the model wrote it.
    """
    types = types_of(schema)
    if not types or "any" in types:
        return value
    if value[0] == '"' and "string" not in types:
        return typed_json(json.loads(value), schema)
    if value[0] not in '"{[' and types == {"string"}:
        return encode_basestring(text)
    return value
