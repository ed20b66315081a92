"""Schemas of Google's API as JSON schemas.

A ``Schema`` there is OpenAPI's of 2021, with types in capital letters.
"""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.google_json import camel_name
from calculators.kit.requests.schema import Schema
from calculators.llm.requests.structured_output import MAX_SIZE, check_size

#: Keywords with a number that protobuf may write as a text, as 64-bit integers in JSON.
_COUNTS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_TABLES: Final = frozenset({"properties", "$defs"})
#: Names that JSON schemas have otherwise.
_RENAMED: Final = {"defs": "$defs", "ref": "$ref", "any_of": "anyOf"}
#: Formats that say which number or text it is, and restrict nothing.
_NO_FORMATS: Final = frozenset({"enum", "int32", "int64", "float", "double", "byte"})


def json_schema(value: object, path: str) -> Schema:
    """Return a ``Schema`` of Google's as a JSON schema.

    Raises:
        RequestError: it is not an object, too long, or nested too deeply.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "a schema (an object)", value)
    check_size(value, MAX_SIZE, path)
    try:
        made: Schema = _converted(value)
    except RecursionError:
        raise fields.invalid(path, "it is nested too deeply") from None
    return made


def _converted(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    made: Schema = {}
    for given, each in value.items():
        name = _RENAMED.get(given) or camel_name(given)
        if each is None or name in ("nullable", "propertyOrdering", "example"):
            continue
        if name == "type":
            if each != "TYPE_UNSPECIFIED":
                made["type"] = _lower(each)
        elif name == "format" and each in _NO_FORMATS:
            continue
        elif name in _COUNTS and isinstance(each, str) and each.isdecimal():
            made[name] = int(each[:18])
        elif name in _SCHEMAS:
            made[name] = _converted(each)
        elif name in _LISTS and isinstance(each, list):
            made[name] = [_converted(inner) for inner in each]
        elif name in _TABLES and isinstance(each, dict):
            made[name] = {key: _converted(inner) for key, inner in each.items()}
        else:
            made[name] = each
    _order(made, value.get("propertyOrdering") or value.get("property_ordering"))
    return _with_null(made) if value.get("nullable") is True else made


def _lower(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_lower(each) for each in kind]
    return kind.lower() if isinstance(kind, str) else kind


def _order(schema: Schema, names: object) -> None:
    """Put the properties into the order in which the model is to write them."""
    properties = schema.get("properties")
    if isinstance(names, list) and isinstance(properties, dict):
        first = [name for name in names if isinstance(name, str) and name in properties]
        schema["properties"] = {**{name: properties[name] for name in first}, **properties}


def _with_null(schema: Schema) -> Schema:
    if isinstance(schema.get("enum"), list):
        return {"anyOf": [schema, {"type": "null"}]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema
