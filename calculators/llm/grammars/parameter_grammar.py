"""Formats of a call's arguments that are written one by one, not as a JSON object.

Runs in the grammar process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.schema_keywords import Located, SchemaError
from calculators.llm.grammars.schema_references import References
from calculators.llm.parsers.parser import ParameterForm

#: Optional parameters of one tool: without a required one the format grows with their square.
_MAX_OPTIONAL: Final = 32
_MAX_PARTS: Final = 64


#: Keywords of an object that have no place where parameters are written one by one.
_WITHOUT_PLACE: Final = (
    "anyOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "dependencies",
    "patternProperties", "propertyNames", "minProperties", "maxProperties",
)  # fmt: skip


def parameters(
    form: ParameterForm,
    schema: Mapping[str, Any],
    path: str,
    leave_out: Callable[[str, str], None],
    *,
    is_strict: bool = False,
) -> Format:
    """Return the format of all required parameters, followed by any of the optional ones.

    Args:
        leave_out: is told the place of a keyword that is not enforced, and why.

    Raises:
        SchemaError: the schema does not describe parameters.
    """
    properties, required = _properties(schema, leave_out)
    optional = [name for name in properties if name not in required]
    if len(optional) > _MAX_OPTIONAL:
        leave_out("", f"more than {_MAX_OPTIONAL} optional parameters cannot be written")
        optional = optional[:_MAX_OPTIONAL]
    written = {
        name: _parameter(form, name, inner, schema, path + place, is_strict)
        for name, (inner, place) in properties.items()
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


def _properties(
    schema: Mapping[str, Any], leave_out: Callable[[str, str], None]
) -> tuple[dict[str, Located], dict[str, None]]:
    """Return the schemas of the parameters, and the names of the required ones."""
    properties: dict[str, Located] = {}
    required: dict[str, None] = {}
    for part, place in _parts(schema):
        for name in _WITHOUT_PLACE:
            if name in part:
                leave_out(f"{place}.{name}", "this model writes parameters one by one")
        for name, inner in (part.get("properties") or {}).items():
            where = f"{place}.properties.{name}"
            known = properties.get(name)
            properties[name] = (inner if known is None else {"allOf": [known[0], inner]}, where)
        required.update(dict.fromkeys(part.get("required") or ()))
        for name in required:
            properties.setdefault(name, (True, f"{place}.required"))
    for name, (_, place) in list(properties.items()):
        if not name or not all(letter.isalnum() or letter in "_.-" for letter in name):
            if name in required:
                raise SchemaError(place, f"{fields.describe(name)} cannot be written in a call")
            leave_out(place, "the name cannot be written in a call")
            del properties[name]
    return properties, required


def _parts(schema: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Return a schema with all that ``$ref`` and ``allOf`` add to it."""
    references = References(schema)
    found: list[tuple[Mapping[str, Any], str]] = []
    waiting: list[Located] = [(schema, "")]
    while waiting and len(found) < _MAX_PARTS:
        part, place = waiting.pop(0)
        if not isinstance(part, Mapping):
            continue
        found.append((part, place))
        if "$ref" in part:
            where = f"{place}.$ref"
            waiting.append((references.target(part, part["$ref"], where), where))
        waiting += ((each, f"{place}.allOf[{i}]") for i, each in enumerate(part.get("allOf") or ()))
    return found


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
