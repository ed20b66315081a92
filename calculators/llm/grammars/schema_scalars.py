"""Expressions of strings and numbers, and keywords that count."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from calculators.llm.grammars import json_text, number_range
from calculators.llm.grammars.number_range import Bound
from calculators.llm.grammars.regular_expression import (
    MAX_COUNT,
    Node,
    RegexError,
    parse_regex,
)
from calculators.llm.grammars.schema_keywords import SchemaError
from calculators.llm.grammars.string_formats import MISSING, PATTERNS


def is_of(value: object, kinds: tuple[str, ...]) -> bool:
    """Return True if a JSON value has one of these types."""
    match value:
        case bool():
            own = {"boolean"}
        case None:
            own = {"null"}
        case int():
            own = {"integer", "number"}
        case float():
            own = {"integer", "number"} if value.is_integer() else {"number"}
        case str():
            own = {"string"}
        case list():
            own = {"array"}
        case _:
            own = {"object"}
    return not own.isdisjoint(kinds)


def count(schema: Mapping[str, Any], name: str, place: str) -> int | None:
    """Return the value of a keyword that counts; None where it is absent."""
    value = schema.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise SchemaError(f"{place}.{name}", "expected a number that is not negative")
    return value


def counts(schema: Mapping[str, Any], what: str, place: str, limit: int) -> tuple[int, int | None]:
    """Return ``minX`` and ``maxX``, 0 and None where they are absent.

    Raises:
        SchemaError: they exclude everything, or exceed the limit.
    """
    low = count(schema, f"min{what}", place) or 0
    high = count(schema, f"max{what}", place)
    for name, value in (("min", low), ("max", high)):
        if value is not None and value > limit:
            raise SchemaError(f"{place}.{name}{what}", f"{value} is above the maximum {limit}")
    if high is not None and low > high:
        raise SchemaError(f"{place}.min{what}", f"{low} is above max{what} {high}")
    return low, high


def pattern_node(pattern: object, place: str) -> Node:
    """Parse a ``pattern``."""
    if not isinstance(pattern, str):
        raise SchemaError(place, "expected a regular expression")
    try:
        return parse_regex(pattern)
    except RegexError as error:
        raise SchemaError(place, f"regular expression: {error}") from None


def string_node(schema: Mapping[str, Any], place: str) -> Node:
    """Return the JSON strings that a schema allows."""
    name = schema.get("format")
    if name is not None and not isinstance(name, str):
        raise SchemaError(f"{place}.format", "expected the name of a format")
    if name in MISSING:
        raise SchemaError(f"{place}.format", f'the format "{name}" is not supported')
    known = PATTERNS.get(name) if name is not None else None
    has_counts = "minLength" in schema or "maxLength" in schema
    if known is not None or "pattern" in schema:
        for other in ("minLength", "maxLength", "pattern"):
            if other in schema and (known is not None or other != "pattern"):
                beside = "format" if known is not None else "pattern"
                raise SchemaError(
                    f"{place}.{other}", f"the keyword is not supported together with {beside}"
                )
        if known is not None:
            return json_text.string_of(parse_regex(known))
        return json_text.string_of(pattern_node(schema["pattern"], f"{place}.pattern"))
    if has_counts:
        low, high = counts(schema, "Length", place, MAX_COUNT)
        return json_text.counted_string(low, high)
    return json_text.STRING


def number_node(kind: str, schema: Mapping[str, Any], place: str) -> Node:
    """Return the numbers that a schema allows. ``kind``: "integer" or "number"."""
    low = _bound(schema, "minimum", "exclusiveMinimum", place, is_low=True)
    high = _bound(schema, "maximum", "exclusiveMaximum", place, is_low=False)
    if low is None and high is None:
        return number_range.INTEGER if kind == "integer" else number_range.NUMBER
    try:
        make = number_range.integers if kind == "integer" else number_range.numbers
        return make(low, high)
    except number_range.NoSuchNumber as error:
        raise SchemaError(place, str(error)) from None


def _bound(
    schema: Mapping[str, Any], name: str, exclusive: str, place: str, *, is_low: bool
) -> Bound | None:
    """Return the stricter one of an inclusive and an exclusive bound."""
    found = [
        Bound(_decimal(schema[each], f"{place}.{each}"), is_open)
        for each, is_open in ((name, False), (exclusive, True))
        if each in schema
    ]
    if not found:
        return None
    pick = max if is_low else min
    return pick(found, key=lambda bound: (bound.value, bound.is_open == is_low))


def _decimal(value: object, place: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(place, "expected a number")
    if isinstance(value, int) and value.bit_length() > 128:
        raise SchemaError(place, "the number has too many digits")
    number = Decimal(repr(value))
    if not number.is_finite() or len(f"{number:f}") > number_range.MAX_DIGITS:
        raise SchemaError(place, "the number has too many digits")
    return number
