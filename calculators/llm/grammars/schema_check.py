"""Checks of JSON schemas before rules are made of them. Runs in the grammar process."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests import fields
from calculators.llm.grammars.regular_expression import (
    RegexError,
    UnsupportedRegex,
    parse_search,
)
from calculators.llm.grammars.schema_keywords import SchemaError, inner_schemas, wrong_type
from calculators.llm.grammars.schema_references import References

_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")

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
    """Refuse what is no JSON schema. Keywords that rules cannot express are found later.

    Raises:
        SchemaError: the schema is wrong; it has the place in the schema.
    """
    waiting: list[tuple[object, _Place]] = [(schema, _Place(None))]
    properties = 0
    references = References(schema)
    while waiting:
        here, place = waiting.pop()
        if isinstance(here, bool):
            continue
        if not isinstance(here, dict):
            raise wrong_type(str(place), "a JSON schema (an object)", here)
        if place.depth > MAX_DEPTH:
            raise SchemaError("", f"the schema is nested deeper than {MAX_DEPTH}")
        try:
            _check_keywords(here)
            if "$ref" in here:
                references.target(here, here["$ref"], ".$ref")
            waiting += ((inner, _Place(place, *steps)) for inner, steps in inner_schemas(here))
        except SchemaError as error:
            raise SchemaError(f"{place}{error.place}", str(error)) from None
        properties += len(here.get("properties") or ())
        if properties > MAX_PROPERTIES:
            raise SchemaError("", f"the schema has more than {MAX_PROPERTIES} properties")


def _check_keywords(schema: dict[str, Any]) -> None:
    """Refuse values of keywords that are of the wrong type; making the rules may find more."""
    _check_type(schema.get("type"))
    _check_pattern(schema.get("pattern"), ".pattern")
    if schema.get("enum") == []:
        raise SchemaError(".enum", "it has no values")
    for keyword in ("required",):
        names = schema.get(keyword)
        if names is not None and not _are_names(names):
            raise wrong_type(f".{keyword}", "an array of names", names)
    for keyword in ("dependentRequired", "dependencies"):
        needed = schema.get(keyword)
        for key, names in needed.items() if isinstance(needed, dict) else ():
            is_list = keyword == "dependentRequired" or isinstance(names, list)
            if is_list and not _are_names(names):
                raise wrong_type(f".{keyword}.{key}", "an array of names", names)
    patterns = schema.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():
        _check_pattern(pattern, ".patternProperties")
    for keyword in ("properties", "patternProperties"):
        if schema.get(keyword) is not None and not isinstance(schema[keyword], dict):
            raise wrong_type(f".{keyword}", "an object of JSON schemas", schema[keyword])


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


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
        raise wrong_type(place, "a regular expression", value)
    if len(value) > MAX_PATTERN:
        raise SchemaError(
            place, f"its {len(value)} characters are more than the maximum {MAX_PATTERN}"
        )
    try:
        parse_search(value)
    except UnsupportedRegex:
        pass  # making the rules leaves it out
    except RegexError as error:
        raise SchemaError(place, f"not a regular expression: {error}") from None
