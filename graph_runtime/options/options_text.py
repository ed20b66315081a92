"""Options types for people: the fields that can be set, and a text to paste into a graph."""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from typing import Any

from graph_runtime.options.options import OptionsType
from graph_runtime.options.options_schema import SCHEMAS
from protos.documentation import comments_of
from protos.pool import FieldType, is_repeated, is_required

_TYPE_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64",
    17: "sint32", 18: "sint64",
}  # fmt: skip
_STRING, _BYTES, _BOOL, _ENUM = 9, 12, 8, 14


@dataclasses.dataclass(frozen=True, slots=True)
class OptionField:
    """One field as shown: ``default`` as a graph writes it, None when there is none."""

    name: str
    type: str
    default: str | None
    doc: str
    required: bool


def describe_options(options_type: type[Any] | str) -> list[OptionField]:
    """Return the fields of a type of options, in the order of their declaration."""
    kind = OptionsType.of(options_type)
    schema = SCHEMAS.get(kind.python_type)
    docs = (
        {field.name: field.doc for field in schema.fields}
        if schema is not None
        else comments_of(kind.full_name)
    )
    defaults = (
        {field.name: _written(field.default) for field in schema.fields}
        if schema is not None
        else {}
    )
    return [
        OptionField(
            name=field.name,
            type=_type(field),
            default=defaults[field.name] if field.name in defaults else _default(field),
            doc=docs.get(field.name, ""),
            required=is_required(field),
        )
        for field in kind.message_class.DESCRIPTOR.fields
    ]


def options_snippet(options_type: type[Any] | str) -> str:
    """``node_options`` with every field: the required ones to fill in, the others as comments."""
    kind = OptionsType.of(options_type)
    fields = {field.name: field for field in kind.message_class.DESCRIPTOR.fields}
    lines = ["node_options {", f"  [type.googleapis.com/{kind.full_name}] {{"]
    for described in describe_options(options_type):
        field = fields[described.name]
        is_message = field.message_type is not None
        value = "{ ... }" if is_message else described.default or _placeholder(field)
        separator = " " if is_message else ": "
        note = described.type + (f"; {described.doc}" if described.doc else "")
        mark = "" if described.required and not is_message else "# "
        lines.append(f"    {mark}{described.name}{separator}{value}  # {note}")
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _type(field: FieldType) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map<{_type(key)}, {_type(value)}>"
    if message is not None:
        name = message.full_name
    elif field.enum_type is not None:
        name = " | ".join(value.name for value in field.enum_type.values)
    else:
        name = _TYPE_NAMES[field.type]
    return f"repeated {name}" if is_repeated(field) else name


def _default(field: FieldType) -> str | None:
    """Return the default of a field of a compiled message; only a declared one is worth showing."""
    if is_repeated(field) or field.message_type is not None or not field.has_default_value:
        return None
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[field.default_value].name)
    return _written(field.default_value)


def _placeholder(field: FieldType) -> str:
    if field.type in (_STRING, _BYTES):
        return '""'
    if field.type == _ENUM:
        return str(field.enum_type.values[0].name)
    return "false" if field.type == _BOOL else "0"


def _written(value: Any) -> str | None:
    """A Python value as the text format writes it; None for what is not a single value."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    if isinstance(value, int | float):
        return str(value)
    if value is None or value is dataclasses.MISSING or not value:
        return None
    if isinstance(value, list | tuple) and all(_written(item) is not None for item in value):
        return "[" + ", ".join(str(_written(item)) for item in value) + "]"
    return None
