"""Is a JSON schema one? Checked before a template prints it, or a grammar is made of it."""

from __future__ import annotations

import re
from typing import Any, Final

from calculators.llm.openai import fields

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
)
_LIST: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")

MAX_DEPTH: Final = 64

_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}")


def check_schema(schema: object, path: str) -> None:
    """Refuse what is no JSON schema: unknown types, patterns that are no regular expression.

    Raises:
        RequestError: with the place inside the schema as its param.
    """
    waiting: list[tuple[object, str, int]] = [(schema, path, 0)]
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
        waiting += [(each, where, depth + 1) for each, where in _inner(here, place)]


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
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise fields.invalid(path, f"not a regular expression: {error}") from None
    if _has_stray_brace(value):
        # Python reads it as text, JSON Schema's expressions (ECMA 262) do not.
        raise fields.invalid(path, "not a regular expression: a brace that repeats nothing")


def _has_stray_brace(pattern: str) -> bool:
    """Is there a brace, not escaped and outside of character classes, that repeats nothing?"""
    place, in_class, repeats = 0, False, False
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 2
            repeats = True
            continue
        if in_class:
            in_class = letter != "]"
            repeats = not in_class
        elif letter == "[":
            in_class = True
            if pattern[place + 1 : place + 2] == "^":
                place += 1
            if pattern[place + 1 : place + 2] == "]":
                place += 1
        elif letter == "{":
            found = _REPETITION.match(pattern, place)
            if found is None or not repeats:
                return True
            place = found.end()
            continue
        elif letter == "}":
            return True
        else:
            repeats = letter not in "(|^"
        place += 1
    return False
