"""The values that are not valid by a schema, as schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.grammars.schema_keywords import (
    NOT_ENUM,
    NOT_INTEGER,
    NOT_MULTIPLE,
    NOT_PATTERN,
    OWN,
    TYPES,
    Derived,
    Located,
    SchemaError,
)
from calculators.llm.grammars.schema_references import References
from calculators.llm.grammars.schema_values import item_schemas, kinds_of

_MAX_DEPTH: Final = 8
_NUMBERS: Final = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}
#: Keywords that count, with the keyword of all smaller or larger counts and the step to it.
_COUNTS: Final = {
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}


class Negations:
    """The negations of one document's schemas.

    A negation may be narrower than the logic says: every value that it allows is one that the
    schema refuses, but not every such value may be allowed.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        #: Also keeps the schemas alive: they are known by their identity.
        self._known: dict[int, list[object] | None] = {}
        self._kept: list[object] = []

    def of(self, schema: object, place: str) -> list[Located] | None:
        """Return schemas of which each refuses what ``schema`` allows; None: there are none."""
        if id(schema) not in self._known:
            self._known[id(schema)] = self._negated(schema, place, 0)
            self._kept.append(schema)
        found = self._known[id(schema)]
        return None if found is None else [(each, place) for each in found]

    def _negated(self, schema: object, place: str, depth: int) -> list[object] | None:
        if isinstance(schema, bool):
            return [] if schema else [Derived()]
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        found: list[object] = []
        unknown = False
        for name, value in schema.items():
            if name in OWN and not isinstance(schema, Derived):
                continue
            made = self._keyword(name, value, schema, place, depth)
            if made is None:
                unknown = True
            else:
                found += made
        # A schema that says nothing allows everything.
        return None if unknown and not found else found

    def _keyword(
        self, name: str, value: Any, schema: Mapping[str, Any], place: str, depth: int
    ) -> list[object] | None:
        match name:
            case "type":
                return _other_types(value)
            case "const":
                return _not_values([value])
            case "enum":
                return _not_values(value) if isinstance(value, list) else None
            case "$ref":
                target = self._references.target(schema, value, f"{place}.$ref")
                return self._negated(target, place, depth + 1)
            case "not":
                return [value]
            case "anyOf":
                return self._none(value, place, depth)
            case "oneOf":
                return self._none(value, place, depth)
            case "allOf":
                return self._any(value, place, depth)
            case "required":
                return [Derived(type="object", properties={each: False}) for each in value]
            case "properties":
                return self._properties(value, place, depth)
            case "items" | "prefixItems":
                return self._items(schema, place, depth) if name == "items" or (
                    "items" not in schema) else []  # fmt: skip
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                if isinstance(value, bool):
                    return None
                return [Derived({"type": "number", _NUMBERS[name]: value})]
            case "multipleOf":
                return [Derived({"type": "number", NOT_MULTIPLE: value})]
            case "pattern":
                return [Derived({"type": "string", NOT_PATTERN: [value]})]
            case _ if name in _COUNTS:
                return _other_count(name, value)
            case ("additionalProperties" | "unevaluatedProperties" | "patternProperties"
                  | "propertyNames" | "uniqueItems" | "contains" | "if" | "dependentRequired"
                  | "dependentSchemas" | "dependencies" | "unevaluatedItems" | "$dynamicRef"
                  | "$recursiveRef" | "format"):  # fmt: skip
                return None
            case _ if name in OWN:
                return None
            case _:
                return []

    def _none(self, schemas: Any, place: str, depth: int) -> list[object] | None:
        """Return the schemas of values that are valid by none of ``schemas``."""
        if not isinstance(schemas, list):
            return None
        every: list[object] = []
        for each in schemas:
            negated = self._negated(each, place, depth + 1)
            if negated is None:
                return None
            every.append({"anyOf": negated} if negated else False)
        return [Derived(allOf=every)]

    def _any(self, schemas: Any, place: str, depth: int) -> list[object] | None:
        if not isinstance(schemas, list):
            return None
        made = [self._negated(each, place, depth + 1) for each in schemas]
        if schemas and all(each is None for each in made):
            return None
        return [each for negated in made for each in negated or ()]

    def _properties(self, value: Any, place: str, depth: int) -> list[object] | None:
        if not isinstance(value, dict):
            return None
        found: list[object] = []
        unknown = False
        for name, inner in value.items():
            negated = self._negated(inner, place, depth + 1)
            unknown = unknown or negated is None
            found += [
                Derived(type="object", properties={name: each}, required=[name])
                for each in negated or ()
            ]
        return None if unknown and not found else found

    def _items(self, schema: Mapping[str, Any], place: str, depth: int) -> list[object] | None:
        first, others = item_schemas(schema)
        found: list[object] = []
        unknown = False
        for number, inner in enumerate([*first, *([] if others is None else [others])]):
            negated = self._negated(inner, place, depth + 1)
            unknown = unknown or negated is None
            found += [
                Derived(type="array", prefixItems=[*[True] * number, each], minItems=number + 1)
                for each in negated or ()
            ]
        return None if unknown and not found else found


def _other_types(value: Any) -> list[object] | None:
    kinds = value if isinstance(value, list) else [value]
    if not all(isinstance(kind, str) for kind in kinds):
        return None
    others = [kind for kind in TYPES if kind not in kinds]
    found: list[object] = []
    if "integer" in kinds and "number" in others:
        others.remove("number")
        found.append(Derived({"type": "number", NOT_INTEGER: True}))
    return ([Derived(type=others)] if others else []) + found


def _not_values(values: list[Any]) -> list[object]:
    """Return the schema of all values but these; of objects and arrays only where none is named."""
    kinds = {kind for each in values for kind in kinds_of(each)}
    plain = [kind for kind in TYPES if kind not in kinds or kind not in ("object", "array")]
    return [Derived({"type": plain, NOT_ENUM: list(values)})]


def _other_count(name: str, value: Any) -> list[object] | None:
    kind, other, step = _COUNTS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise SchemaError(f".{name}", "expected a number that is not negative")
    count = int(value) + step
    return [Derived({"type": kind, other: count})] if count >= 0 else []
