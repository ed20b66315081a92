"""Schemas: dataclasses as protobuf message types, and the conversion of their values.

    bool, int, float, str, bytes    a scalar: bool, int64, double, string, bytes
    an Enum                         an enum with the members' names
    another options dataclass       a message
    list[X], tuple[X, ...]          a repeated field
    dict[K, X]                      a map; K is str, int or bool
    X | None                        X, and None when it is not set

A field without a default is required. Field numbers count from 1 in the order of the class, or
are given: ``field(metadata={"number": 3})``.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from graph_runtime.errors import GraphConfigError
from graphrt_base.annotations import resolved

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )
    from google.protobuf.message import Message

CALCULATOR_OPTIONS = "mediapipe.CalculatorOptions"
_CALCULATOR_OPTIONS_FILE = "mediapipe/framework/calculator_options.proto"

# Numbers of FieldDescriptorProto.Type and Label, which are fixed by protobuf.
_SCALARS: dict[type, tuple[int, str]] = {
    bool: (8, "bool"),
    int: (3, "int"),
    float: (1, "float"),
    str: (9, "string"),
    bytes: (12, "bytes"),
}
_TYPE_MESSAGE, _TYPE_ENUM = 11, 14
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Element:
    """The type of one value: a scalar, an enum or a nested message."""

    proto_type: int
    shown: str
    enum: type[Enum] | None = None
    nested: type | None = None

    def numbers(self) -> dict[Enum, int]:
        """Return the number of each member: its own value if all are integers, else 0, 1, 2..."""
        members = list(self.enum) if self.enum is not None else []
        if all(type(member.value) is int and abs(member.value) < 2**31 for member in members):
            return {member: member.value for member in members}
        return {member: number for number, member in enumerate(members)}

    def read(self, raw: Any) -> Any:
        """Return the Python value of a protobuf value."""
        if self.nested is not None:
            return SCHEMAS[self.nested].from_message(raw)
        if self.enum is not None:
            return next(member for member, number in self.numbers().items() if number == raw)
        return raw

    def write(self, value: Any) -> Any:
        """Return the protobuf value of a Python scalar or enum member."""
        return self.numbers()[value] if self.enum is not None else value


@dataclasses.dataclass(frozen=True)
class FieldSchema:
    """One field: ``container`` is list, tuple or dict, or None for a single value."""

    name: str
    number: int
    element: Element
    container: type | None
    key: Element | None
    default: Any  # dataclasses.MISSING when there is none
    doc: str

    @property
    def required(self) -> bool:
        """True if a value must be given."""
        return self.default is dataclasses.MISSING and self.container is None

    @property
    def shown(self) -> str:
        """The type as people read it: ``string``, ``repeated int``, ``map<string, float>``."""
        if self.key is not None:
            return f"map<{self.key.shown}, {self.element.shown}>"
        return f"repeated {self.element.shown}" if self.container else self.element.shown


@dataclasses.dataclass(frozen=True)
class Schema:
    """A dataclass, the name of its message type, and its fields."""

    cls: type
    full_name: str
    fields: tuple[FieldSchema, ...]

    def from_message(self, message: Message) -> Any:
        """Return the instance that a message of this type stands for.

        Fields that are not set keep the dataclass's defaults. Raises GraphConfigError when the
        class itself refuses the values.
        """
        values: dict[str, Any] = {}
        for field in self.fields:
            raw = getattr(message, field.name)
            if field.container is None:
                if message.HasField(field.name):
                    values[field.name] = field.element.read(raw)
            # protobuf does not tell an empty list from none, so the default stays.
            elif raw or field.default is dataclasses.MISSING:
                values[field.name] = _read_container(field, raw)
        missing = [f.name for f in self.fields if f.required and f.name not in values]
        if missing:
            raise GraphConfigError(f"{self.full_name} needs {', '.join(missing)}")
        try:
            return self.cls(**values)
        except (ValueError, TypeError) as error:
            given = ", ".join(f"{name}: {value!r}" for name, value in values.items())
            raise GraphConfigError(
                f"{self.full_name}: {error} (given: {given or 'nothing'})"
            ) from error

    def to_message(self, value: Any, message: Message) -> None:
        """Write an instance into an empty message of this type.

        A dataclass does not know which of its fields were given: a field that equals its default
        counts as not set. Raises GraphConfigError when a value is not of the field's type.
        """
        for field in self.fields:
            item = getattr(value, field.name)
            if item is None or (field.default is not dataclasses.MISSING and item == field.default):
                continue
            try:
                _write(field, item, message)
            except (TypeError, ValueError, KeyError) as error:
                raise GraphConfigError(
                    f"{self.full_name}: {field.name} is {field.shown}, not {item!r}"
                ) from error


SCHEMAS: dict[type, Schema] = {}
"""Every class that is decorated as options."""


def _read_container(field: FieldSchema, raw: Any) -> Any:
    if field.container is dict:
        return {key: field.element.read(raw[key]) for key in raw}
    items = (field.element.read(item) for item in raw)
    return tuple(items) if field.container is tuple else list(items)


def _write(field: FieldSchema, item: Any, message: Any) -> None:
    element = field.element
    target = getattr(message, field.name)
    if field.container is dict:
        for key, entry in item.items():
            if element.nested is not None:
                target[key].SetInParent()
                SCHEMAS[element.nested].to_message(entry, target[key])
            else:
                target[key] = element.write(entry)
    elif field.container is not None:
        for entry in item:
            if element.nested is not None:
                SCHEMAS[element.nested].to_message(entry, target.add())
            else:
                target.append(element.write(entry))
    elif element.nested is not None:
        # An object whose fields all have their defaults counts as given all the same.
        target.SetInParent()
        SCHEMAS[element.nested].to_message(item, target)
    else:
        setattr(message, field.name, element.write(item))


def schema_for(cls: type, full_name: str) -> Schema:
    """The schema of a dataclass. Raises GraphConfigError for an annotation that cannot be one."""
    try:
        found = typing.get_type_hints(cls, localns={cls.__name__: cls})
        hints = {name: resolved(hint) for name, hint in found.items()}
    except NameError as error:
        raise GraphConfigError(
            f"{full_name}: {error}; the types of options must be defined in their module"
        ) from error
    fields = []
    number = 0
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        number = field.metadata.get("number", number + 1)
        fields.append(_field(cls, full_name, field, hints[field.name], number))
    _refuse_bad_numbers(full_name, fields)
    return Schema(cls, full_name, tuple(fields))


def _field(
    cls: type, full_name: str, field: dataclasses.Field[Any], hint: Any, number: int
) -> FieldSchema:
    where = f"{full_name}.{field.name}"
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    members = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in members:
        members = tuple(member for member in members if member is not type(None))
        hint = members[0] if len(members) == 1 else hint
        default = None if default is dataclasses.MISSING else default
    container = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    key = None
    if container is dict and len(arguments) == 2 and arguments[0] in (str, int, bool):
        key, element = _element(cls, where, arguments[0]), _element(cls, where, arguments[1])
    elif (container is list and len(arguments) == 1) or (
        container is tuple and len(arguments) == 2 and arguments[1] is Ellipsis
    ):
        element = _element(cls, where, arguments[0])
    else:
        container, element = None, _element(cls, where, hint)
    return FieldSchema(
        field.name, number, element, container, key, default, field.metadata.get("doc", "")
    )


def _element(cls: type, where: str, hint: Any) -> Element:
    if isinstance(hint, type):
        if hint in _SCALARS:
            return Element(*_SCALARS[hint])
        if issubclass(hint, Enum) and list(hint):
            return Element(_TYPE_ENUM, "enum " + " | ".join(m.name for m in hint), enum=hint)
        if hint in SCHEMAS:
            return Element(_TYPE_MESSAGE, SCHEMAS[hint].full_name, nested=hint)
        if hint is cls:
            return Element(_TYPE_MESSAGE, where.rpartition(".")[0], nested=hint)
        if dataclasses.is_dataclass(hint):
            raise GraphConfigError(f"{where}: {hint.__name__} needs the decorator @options as well")
    raise GraphConfigError(
        f"{where}: an option cannot be {getattr(hint, '__name__', hint)}; it can be bool, int,"
        " float, str, bytes, an Enum, another options class, list[X], tuple[X, ...], dict[str, X]"
        " or X | None"
    )


def _refuse_bad_numbers(full_name: str, fields: list[FieldSchema]) -> None:
    taken: dict[int, str] = {}
    for field in fields:
        number: Any = field.number
        valid = isinstance(number, int) and 1 <= number < 2**29 and not 19000 <= number < 20000
        if not valid:
            raise GraphConfigError(
                f"{full_name}.{field.name}: {number!r} is not a field number; they are 1 to"
                " 536870911 without 19000 to 19999, which protobuf reserves"
            )
        if number in taken:
            raise GraphConfigError(
                f"{full_name}: {taken[number]} and {field.name} both have number {number}"
            )
        taken[number] = field.name


def file_for(schema: Schema, extension_number: int) -> FileDescriptorProto:
    """Return the file that holds the schema's message type and its extension ``ext``."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    package, _, name = schema.full_name.rpartition(".")
    if not all(_IDENTIFIER.match(part) for part in schema.full_name.split(".")):
        raise GraphConfigError(
            f'"{schema.full_name}" is not a type\'s name; one looks like "acme.RedactOptions"'
        )
    file = FileDescriptorProto(name=file_name(schema.full_name), package=package, syntax="proto2")
    file.dependency.append(_CALCULATOR_OPTIONS_FILE)
    file.dependency.extend(
        file_name(nested.full_name) for nested in dict.fromkeys(_nested(schema)) if nested != schema
    )
    kind = file.message_type.add(name=name)
    kind.extension.add(
        name="ext",
        number=extension_number,
        label=_OPTIONAL,
        type=_TYPE_MESSAGE,
        type_name=f".{schema.full_name}",
        extendee=f".{CALCULATOR_OPTIONS}",
    )
    for field in schema.fields:
        _describe(field, kind, schema.full_name)
    return file


def file_name(full_name: str) -> str:
    """Return the name of the file under which the message type of a dataclass is registered."""
    return f"graphrt/options/{full_name}.proto"


def _nested(schema: Schema) -> Iterator[Schema]:
    for field in schema.fields:
        if field.element.nested in SCHEMAS:
            yield SCHEMAS[field.element.nested]


def _describe(field: FieldSchema, kind: DescriptorProto, full_name: str) -> None:
    label = _REPEATED if field.container else _REQUIRED if field.required else _OPTIONAL
    described: Any = kind.field.add(name=field.name, number=field.number, label=label)
    if field.key is not None:
        entry_name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = kind.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _set_type(entry.field.add(name="key", number=1, label=_OPTIONAL), field.key, kind, "")
        value = entry.field.add(name="value", number=2, label=_OPTIONAL)
        _set_type(value, field.element, kind, full_name)
        described.type = _TYPE_MESSAGE
        described.type_name = f".{full_name}.{entry_name}"
        return
    _set_type(described, field.element, kind, full_name)
    if field.container is None and field.element.nested is None:
        text = default_text(field)
        if text is not None:
            described.default_value = text


def _set_type(
    field: FieldDescriptorProto, element: Element, kind: DescriptorProto, full_name: str
) -> None:
    field.type = cast("FieldDescriptorProto.Type.ValueType", element.proto_type)
    if element.nested is not None:
        field.type_name = f".{element.shown}"
    elif element.enum is not None:
        # Each enum in a message of its own: protobuf puts the names of an enum's values into the
        # scope around it, where two enums with a member NONE would clash.
        holder = f"{element.enum.__name__}Values"
        field.type_name = f".{full_name}.{holder}.{element.enum.__name__}"
        if any(nested.name == holder for nested in kind.nested_type):
            return
        enum = kind.nested_type.add(name=holder).enum_type.add(name=element.enum.__name__)
        for member, number in element.numbers().items():
            enum.value.add(name=member.name, number=number)


def default_text(field: FieldSchema) -> str | None:
    """Return the default of a scalar as ``.proto`` files write it; None when there is none."""
    value = field.default
    if value is dataclasses.MISSING or value is None:
        return None
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "".join(f"\\{byte:03o}" for byte in value)
    return str(value)
