"""`ValueCheck`: is a value that a schema names valid by what else the schema says?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from calculators.llm.grammars.schema_document import (
    NOT_ENUM,
    NOT_INTEGER,
    NOT_MULTIPLE,
    NOT_PATTERN,
    Derived,
    References,
)


class Evaluated(NamedTuple):
    """The properties and items that a valid schema has looked at."""

    names: frozenset[str] = frozenset()
    items: frozenset[int] = frozenset()

    def joined(self, other: Evaluated) -> Evaluated:
        return Evaluated(self.names | other.names, self.items | other.items)


_NOTHING = Evaluated()


def kinds_of(value: object) -> frozenset[str]:
    """Return the types of a JSON value."""
    match value:
        case bool():
            return frozenset({"boolean"})
        case None:
            return frozenset({"null"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"integer", "number"} if value.is_integer() else {"number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def same(one: object, other: object) -> bool:
    """Return True if two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) or isinstance(one, int | float) if one == other else False


class ValueCheck:
    """Checks values by schemas of one document. Keywords that are wrong constrain nothing."""

    def __init__(self, references: References, matches: Callable[[str, str], bool]) -> None:
        """``matches``: True if a pattern matches a part of a text, or cannot be followed."""
        self._references = references
        self._matches = matches

    def is_valid(self, value: object, schema: object) -> bool:
        """Return True if the value is valid."""
        return self.evaluate(value, schema) is not None

    def evaluate(self, value: object, schema: object) -> Evaluated | None:
        """Return what a schema has looked at; None: the value is not valid."""
        if isinstance(schema, bool) or not isinstance(schema, dict):
            return _NOTHING if schema is not False else None
        schema = self._references.plain(schema)
        if not (_fits_type(value, schema) and self._fits_scalars(value, schema)):
            return None
        found = self._applied(value, schema)
        if found is None:
            return None
        if isinstance(value, dict):
            return self._object(value, schema, found)
        if isinstance(value, list):
            return self._array(value, schema, found)
        return found

    def _applied(self, value: object, schema: Mapping[str, Any]) -> Evaluated | None:
        """Apply the schemas that look at the same value."""
        found = _NOTHING
        every = list(schema.get("allOf") or ())
        every += (
            self._references.target(schema, schema[name], f".{name}")
            for name in ("$ref", "$dynamicRef", "$recursiveRef")
            if name in schema
        )
        if isinstance(value, dict):
            for name in ("dependentSchemas", "dependencies"):
                needed = schema.get(name)
                for key, inner in needed.items() if isinstance(needed, dict) else ():
                    if key in value and not isinstance(inner, list):
                        every.append(inner)
        if "if" in schema:
            tried = self.evaluate(value, schema["if"])
            if tried is not None:
                found = found.joined(tried)
            every.append(schema.get("else" if tried is None else "then", True))
        for each in every:
            inner = self.evaluate(value, each)
            if inner is None:
                return None
            found = found.joined(inner)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                passed = [each for each in (self.evaluate(value, one) for one in schema[name])
                          if each is not None]  # fmt: skip
                if not passed or (name == "oneOf" and len(passed) > 1):
                    return None
                for each in passed:
                    found = found.joined(each)
        if "not" in schema and self.evaluate(value, schema["not"]) is not None:
            return None
        return found

    def _fits_scalars(self, value: object, schema: Mapping[str, Any]) -> bool:
        if "const" in schema and not same(value, schema["const"]):
            return False
        values = schema.get("enum")
        if isinstance(values, list) and not any(same(value, each) for each in values):
            return False
        own: Mapping[str, Any] = schema if isinstance(schema, Derived) else {}
        if any(same(value, each) for each in own.get(NOT_ENUM, ())):
            return False
        if isinstance(value, str):
            return self._fits_string(value, schema, own)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _fits_number(value, schema, own)
        return True

    def _fits_string(self, value: str, schema: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not self._matches(pattern, value):
            return False
        if any(self._matches(each, value) for each in own.get(NOT_PATTERN, ())):
            return False
        return _fits_count(len(value), schema, "Length")

    def _object(
        self, value: dict[str, Any], schema: Mapping[str, Any], found: Evaluated
    ) -> Evaluated | None:
        required = list(schema.get("required") or ())
        for name in ("dependentRequired", "dependencies"):
            needed = schema.get(name)
            for key, names in needed.items() if isinstance(needed, dict) else ():
                if key in value and isinstance(names, list):
                    required += names
        if not _fits_count(len(value), schema, "Properties") or not all(
            name in value for name in required
        ):
            return None
        if any(not self.is_valid(name, schema.get("propertyNames", True)) for name in value):
            return None
        properties = schema.get("properties") or {}
        patterns = schema.get("patternProperties") or {}
        names = set(found.names)
        for name, inner in value.items():
            looks = [properties[name]] if name in properties else []
            looks += [each for pattern, each in patterns.items() if self._matches(pattern, name)]
            if not looks and "additionalProperties" in schema:
                looks = [schema["additionalProperties"]]
            if looks:
                names.add(name)
            if any(not self.is_valid(inner, each) for each in looks):
                return None
        if "unevaluatedProperties" in schema:
            for name, inner in value.items():
                if name not in names and not self.is_valid(inner, schema["unevaluatedProperties"]):
                    return None
            names |= value.keys()
        return Evaluated(frozenset(names), found.items)

    def _array(
        self, value: list[Any], schema: Mapping[str, Any], found: Evaluated
    ) -> Evaluated | None:
        if not _fits_count(len(value), schema, "Items"):
            return None
        if schema.get("uniqueItems") is True and any(
            same(one, other) for i, one in enumerate(value) for other in value[i + 1 :]
        ):
            return None
        first, others = item_schemas(schema)
        items = set(found.items)
        for i, each in enumerate(value):
            look = first[i] if i < len(first) else others
            if look is None:
                continue
            items.add(i)
            if not self.is_valid(each, look):
                return None
        if "contains" in schema:
            held = [i for i, each in enumerate(value) if self.is_valid(each, schema["contains"])]
            items.update(held)
            most = schema.get("maxContains", len(held))
            if not schema.get("minContains", 1) <= len(held) <= most:
                return None
        if "unevaluatedItems" in schema:
            for i, each in enumerate(value):
                if i not in items and not self.is_valid(each, schema["unevaluatedItems"]):
                    return None
            items.update(range(len(value)))
        return Evaluated(found.names, frozenset(items))


def item_schemas(schema: Mapping[str, Any]) -> tuple[list[Any], Any | None]:
    """Return the schemas of the first items, and that of all others; None: it does not say.

    Drafts before 2020-12 have a list in ``items``, and ``additionalItems`` for the others.
    """
    if isinstance(schema.get("items"), list):
        return schema["items"], schema.get("additionalItems")
    return list(schema.get("prefixItems") or ()), schema.get("items")


def _fits_type(value: object, schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    if kinds is None:
        return True
    return not kinds_of(value).isdisjoint(kinds if isinstance(kinds, list) else [kinds])


def _fits_count(count: int, schema: Mapping[str, Any], what: str) -> bool:
    low, high = schema.get(f"min{what}", 0), schema.get(f"max{what}", count)
    return bool(low <= count <= high)


def _fits_number(value: float, schema: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    number = Decimal(repr(value))
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # Draft 4 has booleans that make the bounds exclusive.
    if isinstance(above, bool):
        above, low = (low, None) if above else (None, low)
    if isinstance(below, bool):
        below, high = (high, None) if below else (None, high)
    if (
        (low is not None and number < Decimal(repr(low)))
        or (high is not None and number > Decimal(repr(high)))
        or (above is not None and number <= Decimal(repr(above)))
        or (below is not None and number >= Decimal(repr(below)))
    ):
        return False
    if own.get(NOT_INTEGER) and number == number.to_integral_value():
        return False
    steps = [(schema.get("multipleOf"), True), (own.get(NOT_MULTIPLE), False)]
    return all(step is None or _is_multiple(number, step) is wanted for step, wanted in steps)


def _is_multiple(number: Decimal, step: object) -> bool:
    try:
        return number % Decimal(repr(step)) == 0
    except InvalidOperation:
        return False
