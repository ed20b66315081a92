"""The keywords of JSON Schema: honoured, without effect on an answer, or refused.

Source: JSON Schema 2020-12 core and validation, and the drafts before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


class SchemaError(ValueError):
    """A schema that no grammar can honour in full; the text says what is wrong.

    Attributes:
        place: the position in the schema, ``.properties.a``; "" is the schema itself.
    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(why)
        self.place = place


#: The keywords that constrain values of each type.
OF_TYPE: Final[dict[str, frozenset[str]]] = {
    "object": frozenset({
        "properties", "required", "additionalProperties", "unevaluatedProperties",
        "patternProperties", "propertyNames", "minProperties", "maxProperties",
    }),
    "array": frozenset({"items", "prefixItems", "unevaluatedItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "boolean": frozenset(),
    "null": frozenset(),
}  # fmt: skip

#: Keywords that make a schema out of others, or out of values.
COMBINING: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")

HONOURED: Final = frozenset({"type", *COMBINING}.union(*OF_TYPE.values()))

_REFUSED: Final = frozenset({
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
    "multipleOf", "divisibleBy", "contains", "additionalItems", "extends", "disallow",
    "$dynamicRef", "$recursiveRef",
})  # fmt: skip
#: Unsupported keywords with the values that constrain nothing.
_HARMLESS: Final[dict[str, tuple[object, ...]]] = {
    "uniqueItems": (False,),
    "additionalItems": (True, False),
}


def assertions(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the members of a schema that constrain an answer.

    Raises:
        SchemaError: a keyword cannot be honoured; none is silently dropped.
    """
    for name in schema:
        if name in _HARMLESS and schema[name] in _HARMLESS[name]:
            continue
        if name in _REFUSED or name in _HARMLESS:
            raise SchemaError(f"{place}.{name}", "the keyword is not supported")
    return {name: value for name, value in schema.items() if name in HONOURED}
