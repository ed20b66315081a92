"""Which keywords of JSON Schema are honoured, which say nothing about an answer, which are refused.

Source: JSON Schema 2020-12 core and validation, and the drafts before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.grammars.schema_error import SchemaError

#: What each type looks at.
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

#: What is a schema by other means than a type.
COMBINING: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")

HONOURED: Final = frozenset({"type", *COMBINING}.union(*OF_TYPE.values()))

_REFUSED: Final = frozenset({
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
    "multipleOf", "divisibleBy", "contains", "additionalItems", "extends", "disallow",
    "$dynamicRef", "$recursiveRef",
})  # fmt: skip
#: Values of these that ask for nothing.
_HARMLESS: Final[dict[str, tuple[object, ...]]] = {
    "uniqueItems": (False,),
    "additionalItems": (True, False),
}


def assertions(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The members of a schema that an answer is held to.

    Raises:
        SchemaError: one of them cannot be honoured. It is never left out.
    """
    for name in schema:
        if name in _HARMLESS and schema[name] in _HARMLESS[name]:
            continue
        if name in _REFUSED or name in _HARMLESS:
            raise SchemaError(f"{place}.{name}", "the keyword is not supported")
    return {name: value for name, value in schema.items() if name in HONOURED}
