"""Conversion of the text of an argument to JSON, by the schema of its parameter."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from calculators.llm.parsers.json_value import compact_json, json_or_string

_BOOLEANS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


class ParameterType(NamedTuple):
    """The JSON types that a schema allows a value to have.

    Attributes:
        is_string: only strings are allowed, and null if ``is_nullable``.
        is_nullable: null is allowed.
        is_boolean: true and false are allowed.
        is_number: only numbers are allowed, and null if ``is_nullable``.
    """

    is_string: bool = False
    is_nullable: bool = False
    is_boolean: bool = False
    is_number: bool = False

    def grows(self, first: str) -> bool:
        """True if a value that begins with ``first`` may be written before it is complete."""
        return self.is_string and not self.is_nullable and first != '"'

    def to_json(self, text: str) -> str:
        """Return the JSON of a complete value. Text that is not JSON becomes a string.

        A string is kept as it is, whatever it looks like, except that a JSON string in quotes
        stands for the text between them.
        """
        if self.is_string:
            if text == "null" and self.is_nullable:
                return text
            quoted = compact_json(text) if text.startswith('"') else None
            return encode_basestring(text) if quoted is None else quoted
        if self.is_boolean and text in _BOOLEANS:
            return _BOOLEANS[text]
        return json_or_string(text)


def parameter_type(schema: object, parameter: str) -> ParameterType:
    """Return the type of a parameter; ``schema`` is the schema of the object of all parameters.

    Reads ``type``, and the types of the alternatives in ``anyOf`` and ``oneOf``, which is how a
    string that may be null is declared. Without a type, anything is allowed.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    of_this = properties.get(parameter) if isinstance(properties, Mapping) else None
    if not isinstance(of_this, Mapping):
        return ParameterType()
    types = _types(of_this)
    for keyword in ("anyOf", "oneOf"):
        alternatives = of_this.get(keyword)
        if isinstance(alternatives, list):
            for each in alternatives:
                types |= (_types(each) if isinstance(each, Mapping) else set()) or {"any"}
    others = types - {"null"}
    return ParameterType(
        others == {"string"},
        "null" in types,
        "boolean" in types,
        bool(others) and others <= {"integer", "number"},
    )


def _types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {each for each in declared if isinstance(each, str)}
    return set()
