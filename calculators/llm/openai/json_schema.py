"""Is a JSON schema one? Checked before a template prints it, or a grammar is made of it."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.openai import fields
from calculators.llm.structured.regular_expression import RegexError, parse_regex
from calculators.llm.structured.schema_combining import target_of
from calculators.llm.structured.schema_error import SchemaError
from calculators.llm.structured.schema_keywords import assertions

_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")

#: Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE: Final = (
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")

MAX_DEPTH: Final = 64
MAX_PATTERN: Final = 4096
#: Of one schema, wherever they stand. Their grammar takes longer to make than anybody waits.
MAX_PROPERTIES: Final = 1000


def check_schema(schema: object, path: str) -> None:
    """Refuse what is no JSON schema, or has keywords that an answer could not be held to.

    Raises:
        RequestError: with the place inside the schema as its param.
    """
    waiting: list[tuple[object, str, int]] = [(schema, path, 0)]
    properties = 0
    while waiting:
        here, place, depth = waiting.pop()
        if isinstance(here, bool):
            continue
        if not isinstance(here, dict):
            raise fields.wrong_type(place, "a JSON schema (an object)", here)
        if depth > MAX_DEPTH:
            raise fields.invalid(path, f"the schema is nested deeper than {MAX_DEPTH}")
        _check_type(here.get("type"), f"{place}.type")
        _check_pattern(here.get("pattern"), f"{place}.pattern")
        _check_keywords(schema, here, place)
        waiting += [(each, where, depth + 1) for each, where in _inner(here, place)]
        properties += len(here.get("properties") or ())
        if properties > MAX_PROPERTIES:
            raise fields.invalid(path, f"the schema has more than {MAX_PROPERTIES} properties")


def _check_keywords(root: object, schema: dict[str, Any], place: str) -> None:
    """What rules cannot say; more of that is found when they are made."""
    try:
        assertions(schema, place)
        if "$ref" in schema:
            target_of(root, schema["$ref"], f"{place}.$ref")
    except SchemaError as error:
        raise fields.invalid(error.place, str(error)) from None
    if schema.get("enum") == []:
        raise fields.invalid(f"{place}.enum", "it has no values")
    names = schema.get("required")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise fields.wrong_type(f"{place}.required", "an array of names", names)
    for pattern in (
        fields.json_object(schema, "patternProperties", f"{place}.patternProperties") or {}
    ):
        _check_pattern(pattern, f"{place}.patternProperties")


def _inner(schema: dict[str, Any], place: str) -> list[tuple[object, str]]:
    found = [(schema[name], f"{place}.{name}") for name in _ONE if name in schema]
    for name in _LIST:
        items = schema.get(name)
        if isinstance(items, list):
            found += [(item, f"{place}.{name}[{i}]") for i, item in enumerate(items)]
        elif items is not None:
            raise fields.wrong_type(f"{place}.{name}", "an array of JSON schemas", items)
    for name in _NAMED:
        members = schema.get(name)
        if isinstance(members, dict):
            found += [(item, f"{place}.{name}.{key}") for key, item in members.items()]
        elif members is not None:
            raise fields.wrong_type(f"{place}.{name}", "an object of JSON schemas", members)
    # Old drafts have one schema per place here.
    return [
        (item, f"{where}[{i}]")
        for value, where in found
        if isinstance(value, list)
        for i, item in enumerate(value)
    ] + [(value, where) for value, where in found if not isinstance(value, list)]


def _check_type(value: object, path: str) -> None:
    if value is None:
        return
    for each in value if isinstance(value, list) else [value]:
        if each not in _TYPES:
            raise fields.invalid(path, f"{fields.describe(each)} is none of {', '.join(_TYPES)}")


def _check_pattern(value: object, path: str) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise fields.wrong_type(path, "a regular expression", value)
    if len(value) > MAX_PATTERN:
        raise fields.invalid(
            path, f"its {len(value)} characters are more than the maximum {MAX_PATTERN}"
        )
    try:
        parse_regex(value)
    except RegexError as error:
        raise fields.invalid(path, f"not a regular expression: {error}") from None
