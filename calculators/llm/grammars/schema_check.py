"""Checks of JSON schemas before rules are made of them. Runs in the grammar process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from calculators.llm.grammars.regular_expression import RegexError, parse_regex
from calculators.llm.grammars.schema_combining import target_of
from calculators.llm.grammars.schema_keywords import SchemaError, assertions
from calculators.requests import fields

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
#: Properties of one schema, at any depth. The grammar of more takes too long to make.
MAX_PROPERTIES: Final = 1000


class _Place:
    """The place of a sub-schema. Its text is made for errors only, because keys may be long."""

    __slots__ = ("_key", "_outer", "depth")

    def __init__(self, outer: _Place | None, *key: str | int) -> None:
        """``key``: the steps from the outer schema to this one."""
        self._outer = outer
        self._key = key
        self.depth: int = 0 if outer is None else outer.depth + 1

    def __str__(self) -> str:
        steps: list[str] = []
        here: _Place | None = self
        while here is not None:
            steps += (_step(key) for key in reversed(here._key))
            here = here._outer
        return "".join(reversed(steps))


def _step(key: str | int) -> str:
    return f".{key}" if isinstance(key, str) else f"[{key}]"


def check_schema(schema: object) -> None:
    """Refuse what is no JSON schema, or has keywords that cannot be honoured.

    Raises:
        SchemaError: the schema is wrong; it has the place in the schema.
    """
    waiting: list[tuple[object, _Place]] = [(schema, _Place(None))]
    properties = 0
    while waiting:
        here, place = waiting.pop()
        if isinstance(here, bool):
            continue
        if not isinstance(here, dict):
            raise _wrong_type(str(place), "a JSON schema (an object)", here)
        if place.depth > MAX_DEPTH:
            raise SchemaError("", f"the schema is nested deeper than {MAX_DEPTH}")
        try:
            _check_keywords(schema, here)
            waiting += _inner(here, place)
        except SchemaError as error:
            raise SchemaError(f"{place}{error.place}", str(error)) from None
        properties += len(here.get("properties") or ())
        if properties > MAX_PROPERTIES:
            raise SchemaError("", f"the schema has more than {MAX_PROPERTIES} properties")


def _check_keywords(root: object, schema: dict[str, Any]) -> None:
    """Refuse unsupported keywords; making the rules may find more."""
    _check_type(schema.get("type"))
    _check_pattern(schema.get("pattern"), ".pattern")
    assertions(schema, "")
    if "$ref" in schema:
        target_of(root, schema["$ref"], ".$ref")
    if schema.get("enum") == []:
        raise SchemaError(".enum", "it has no values")
    names = schema.get("required")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise _wrong_type(".required", "an array of names", names)
    patterns = schema.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():
        _check_pattern(pattern, ".patternProperties")


def _inner(schema: dict[str, Any], place: _Place) -> Iterator[tuple[object, _Place]]:
    for name in _ONE:
        value = schema.get(name)
        # Old drafts have a list here, one schema per position.
        if isinstance(value, list):
            yield from ((item, _Place(place, name, i)) for i, item in enumerate(value))
        elif name in schema:
            yield value, _Place(place, name)
    for name in _LIST:
        items = schema.get(name)
        if isinstance(items, list):
            yield from ((item, _Place(place, name, i)) for i, item in enumerate(items))
        elif items is not None:
            raise _wrong_type(f".{name}", "an array of JSON schemas", items)
    for name in _NAMED:
        members = schema.get(name)
        if isinstance(members, dict):
            yield from ((item, _Place(place, name, key)) for key, item in members.items())
        elif members is not None:
            raise _wrong_type(f".{name}", "an object of JSON schemas", members)


def _check_type(value: object) -> None:
    if value is None:
        return
    for each in value if isinstance(value, list) else [value]:
        if each not in _TYPES:
            raise SchemaError(".type", f"{fields.describe(each)} is none of {', '.join(_TYPES)}")


def _check_pattern(value: object, place: str) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise _wrong_type(place, "a regular expression", value)
    if len(value) > MAX_PATTERN:
        raise SchemaError(
            place, f"its {len(value)} characters are more than the maximum {MAX_PATTERN}"
        )
    try:
        parse_regex(value)
    except RegexError as error:
        raise SchemaError(place, f"not a regular expression: {error}") from None


def _wrong_type(place: str, expected: str, value: object) -> SchemaError:
    return SchemaError(place, f"expected {expected}, got {fields.describe(value)}")
