"""The keywords of JSON Schema: those with schemas in them, and those that constrain a type.

Source: JSON Schema 2020-12 core and validation, and the drafts before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from calculators.kit.requests import fields


class SchemaError(ValueError):
    """A schema that no grammar can be made of; the text says what is wrong.

    Attributes:
        place: the position in the schema, ``.properties.a``; "" is the schema itself.
    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(why)
        self.place = place


class NoValueError(SchemaError):
    """No value is valid by a schema."""


#: A schema and its place.
Located = tuple[object, str]


class Derived(dict[str, Any]):
    """A schema that is made here, of others. It alone may have the keywords in `OWN`."""


#: Keywords of `Derived` schemas: what a value must not be.
NOT_PATTERN: Final = "\0notPattern"
NOT_ENUM: Final = "\0notEnum"
NOT_MULTIPLE: Final = "\0notMultipleOf"
NOT_INTEGER: Final = "\0notInteger"
OWN: Final = frozenset({NOT_PATTERN, NOT_ENUM, NOT_MULTIPLE, NOT_INTEGER})

TYPES: Final = ("object", "array", "string", "number", "boolean", "null")

_NUMBERS: Final = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", NOT_MULTIPLE,
    NOT_INTEGER,
})  # fmt: skip
#: The keywords that constrain values of each type.
OF_TYPE: Final[dict[str, frozenset[str]]] = {
    "object": frozenset({
        "properties", "required", "additionalProperties", "unevaluatedProperties",
        "patternProperties", "propertyNames", "minProperties", "maxProperties",
    }),
    "array": frozenset({
        "items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems",
        "uniqueItems", "contains", "minContains", "maxContains",
    }),
    "string": frozenset({"minLength", "maxLength", "pattern", "format", NOT_PATTERN}),
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "boolean": frozenset(),
    "null": frozenset(),
}  # fmt: skip

#: Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE: Final = (
    "items",
    "additionalItems",
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
_NAMED: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
)
#: Keywords that are known: those with schemas in them, and those that constrain.
KEYWORDS: Final = frozenset({
    "type", "const", "enum", "$ref", "$dynamicRef", "$recursiveRef", "dependentRequired",
    *_ONE, *_LIST, *_NAMED,
}.union(*OF_TYPE.values()) - OWN)  # fmt: skip


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[object, tuple[str | int, ...]]]:
    """Yield the schemas in a schema, each with the steps to it.

    Raises:
        SchemaError: a keyword has no schemas where it must.
    """
    for name in _ONE:
        value = schema.get(name)
        # Old drafts have a list here, one schema per position.
        if isinstance(value, list):
            yield from ((item, (name, i)) for i, item in enumerate(value))
        elif name in schema:
            yield value, (name,)
    for name in _LIST:
        items = schema.get(name)
        if isinstance(items, list):
            yield from ((item, (name, i)) for i, item in enumerate(items))
        elif items is not None:
            raise wrong_type(f".{name}", "an array of JSON schemas", items)
    for name in _NAMED:
        members = schema.get(name)
        if isinstance(members, dict):
            # A dependency may be a list of names.
            yield from (
                (item, (name, key)) for key, item in members.items()
                if not (name == "dependencies" and isinstance(item, list))
            )  # fmt: skip
        elif members is not None:
            raise wrong_type(f".{name}", "an object of JSON schemas", members)


def wrong_type(place: str, expected: str, value: object) -> SchemaError:
    """Return the error about a value of another type than a keyword's."""
    return SchemaError(place, f"expected {expected}, got {fields.describe(value)}")
