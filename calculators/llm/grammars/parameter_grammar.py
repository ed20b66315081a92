"""Formats of a call's arguments that are written one by one, not as a JSON object.

Runs in the grammar process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.schema_keywords import SchemaError
from calculators.llm.parsers.parser import ParameterForm
from calculators.requests import fields

#: Optional parameters of one tool: without a required one the format grows with their square.
_MAX_OPTIONAL: Final = 32


def parameters(
    form: ParameterForm, schema: Mapping[str, Any], path: str, *, is_strict: bool = False
) -> Format:
    """Return the format of all required parameters, followed by any of the optional ones.

    Raises:
        SchemaError: the schema does not describe named parameters.
    """
    properties = _properties(schema)
    required = dict.fromkeys(name for name in _names(schema) if name in properties)
    optional = [name for name in properties if name not in required]
    if len(optional) > _MAX_OPTIONAL:
        raise SchemaError("", f"more than {_MAX_OPTIONAL} optional parameters are not supported")
    written = {
        name: _parameter(form, name, inner, schema, f"{path}.properties.{name}", is_strict)
        for name, inner in properties.items()
    }
    between = [formats.const(form.separator)] if form.separator else []
    if not between or required:
        elements: list[Format] = []
        for name in required:
            elements += [*(between if elements else ()), written[name]]
        elements += [_maybe(formats.sequence(*between, written[name])) for name in optional]
        return formats.sequence(*elements) if elements else _nothing()
    # Nothing is required, so any parameter may be the first.
    starts = [
        formats.sequence(
            written[name],
            *(_maybe(formats.sequence(*between, written[other])) for other in optional[i + 1 :]),
        )
        for i, name in enumerate(optional)
    ]
    return formats.one_of(*starts, _nothing())


def _names(schema: Mapping[str, Any]) -> list[str]:
    return schema.get("required") or []


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    for name in ("$ref", "anyOf", "oneOf", "allOf"):
        if name in schema:
            raise SchemaError(
                f".{name}", "this model's calls need the parameters as plain properties"
            )
    for name in _names(schema):
        if name not in properties:
            raise SchemaError(".required", f"{fields.describe(name)} is not among the properties")
    for name in properties:
        if not name or not all(letter.isalnum() or letter in "_.-" for letter in name):
            raise SchemaError(".properties", f"{fields.describe(name)} cannot be written in a call")
    return properties


def _parameter(
    form: ParameterForm,
    name: str,
    schema: Any,
    root: Mapping[str, Any],
    path: str,
    is_strict: bool,
) -> Format:
    begin = form.begin.replace("NAME", name)
    if form.text_end and _is_plain_text(schema):
        return formats.tag(begin + form.text_begin, formats.any_text(), form.text_end)
    if isinstance(schema, dict):
        # References start at the root of the tool's schema.
        schema = {**{key: root[key] for key in ("$defs", "definitions") if key in root}, **schema}
    return formats.tag(begin, formats.json_schema(schema, path, is_strict=is_strict), form.end)


def _is_plain_text(schema: Any) -> bool:
    """True if the value may be any string. Strings with constraints are written as JSON."""
    limits = ("enum", "const", "pattern", "format", "minLength", "maxLength", "anyOf", "$ref")
    return (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and not any(name in schema for name in (*limits, "oneOf", "allOf"))
    )


def _maybe(part: Format) -> Format:
    return formats.one_of(part, _nothing())


def _nothing() -> Format:
    return formats.regex("")
