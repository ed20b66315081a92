"""Options of calculators: declared as a dataclass or in a ``.proto`` file, looked up per node.

::

    @options("acme.RedactOptions")
    class RedactOptions:
        words: tuple[str, ...] = ()
        mask: str = "*"

makes a frozen dataclass and the message type ``acme.RedactOptions``, and graphs say either of ::

    node_options { [type.googleapis.com/acme.RedactOptions] { words: "secret" } }
    options { [acme.RedactOptions.ext] { words: ["secret", "key"] } }

Message classes work in the same places: graphrt's (``"mediapipe.GateCalculatorOptions"``) and
classes of an author's own ``*_pb2`` modules. Rules: MediaPipe ``framework/tool/options_map.h``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

from graph_runtime.errors import Code, GraphConfigError, PacketTypeError, did_you_mean
from graph_runtime.language.text_parser import option_types
from graph_runtime.options.isolated_modules import own_name
from graph_runtime.options.options_schema import CALCULATOR_OPTIONS, SCHEMAS, file_for, schema_for
from protos.pool import (
    FieldType,
    MessageType,
    add_file,
    adopt,
    class_of,
    extensions_of,
    find_extension,
    find_message,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = TypeVar("T")

# Numbers of extensions made from a name: the end of the range that CalculatorOptions leaves to
# extensions. MediaPipe and OVMS have none there.
_FIRST_EXTENSION, _LAST_EXTENSION = 500_000_000, 536_870_911


@overload
@dataclass_transform(frozen_default=True)
def options(cls: type[T], /) -> type[T]: ...
@overload
@dataclass_transform(frozen_default=True)
def options(
    name: str | None = None, /, *, extension: int | None = None
) -> Callable[[type[T]], type[T]]: ...
def options(name: type[Any] | str | None = None, /, *, extension: int | None = None) -> Any:
    """Declare a class as the options of calculators.

    The class becomes a frozen dataclass unless it is one. ``name`` is the message type that graphs
    write; without it, the top-level package of the class's module and the class's name:
    ``RedactOptions`` in ``acme.text.redact`` is ``acme.RedactOptions``. ``extension`` is the number
    of the extension ``<name>.ext`` of ``mediapipe.CalculatorOptions``; without it, it is made from
    the name and never changes.

    ``field(metadata={"doc": ..., "number": ...})`` describes a field and fixes its number.
    Raises GraphConfigError for a field that cannot be an option, and when the name is taken by a
    type with other fields.
    """
    if isinstance(name, type):
        return _declare(name, None, None)
    return lambda cls: _declare(cls, name, extension)


def _declare(cls: type[T], name: str | None, extension: int | None) -> type[T]:
    if "__dataclass_fields__" not in cls.__dict__:
        cls = dataclasses.dataclass(frozen=True)(cls)
    package = own_name(cls.__module__).partition(".")[0].strip("_")
    full_name = name or f"{package}.{cls.__name__}"
    if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise GraphConfigError(f"{full_name}: options are shared; make it dataclass(frozen=True)")
    schema = schema_for(cls, full_name)
    try:
        add_file(file_for(schema, extension or _extension_number(full_name)))
    except ValueError as error:
        raise GraphConfigError(f"{full_name} cannot be declared: {error}") from error
    SCHEMAS[cls] = schema
    return cls


def _extension_number(full_name: str) -> int:
    digest = hashlib.sha256(full_name.encode()).digest()
    span = _LAST_EXTENSION - _FIRST_EXTENSION + 1
    return _FIRST_EXTENSION + int.from_bytes(digest[:8], "big") % span


class OptionsType(Generic[T]):
    """A type of options: its name in graphs, and its values as messages and as Python objects."""

    _known: ClassVar[dict[object, OptionsType[Any]]] = {}

    def __init__(self, python_type: type[T], kind: MessageType) -> None:
        self.python_type = python_type
        self.full_name: str = kind.full_name
        self.message_class = class_of(kind)

    @classmethod
    def of(cls, options_type: type[T] | str) -> OptionsType[T]:
        """Return the type of options that a class or a full name stands for.

        Takes a class declared with ``@options``, a message class of any pool, or the name of a
        registered message type. Raises GraphConfigError for anything else.
        """
        known = cls._known.get(options_type)
        if known is None:
            known = cls._known[options_type] = cls(*_resolve(options_type))
        return known

    @property
    def extension(self) -> FieldType:
        """The extension of CalculatorOptions that holds this type; None if there is none."""
        return _extension(CALCULATOR_OPTIONS, self.full_name)

    def from_message(self, message: Message) -> T:
        """Return the Python object for a message of this type."""
        schema = SCHEMAS.get(self.python_type)
        if schema is not None:
            return cast(T, schema.from_message(message))
        if isinstance(message, self.python_type):
            return message
        other: Any = self.python_type
        return cast(T, other.FromString(message.SerializePartialToString()))

    def to_message(self, value: T) -> Message:
        """A new message of this type, of graphrt's own pool, for a Python object."""
        message = self.message_class()
        schema = SCHEMAS.get(self.python_type)
        if schema is not None:
            schema.to_message(value, message)
        else:
            source: Any = value
            message.MergeFromString(source.SerializePartialToString())
        return message


def _resolve(options_type: Any) -> tuple[type[Any], MessageType]:
    if isinstance(options_type, str):
        kind = find_message(options_type)
        if kind is None:
            raise GraphConfigError(
                f'no message type "{options_type}" is registered.'
                + did_you_mean(options_type, option_types())
            )
        return class_of(kind), kind
    if options_type in SCHEMAS:
        kind = find_message(SCHEMAS[options_type].full_name)
        assert kind is not None, "declared types are registered"
        return options_type, kind
    if is_options_type(options_type):
        try:
            return options_type, adopt(options_type.DESCRIPTOR)
        except ValueError as error:
            raise GraphConfigError(str(error)) from error
    raise GraphConfigError(
        f"{options_type!r} is not a type of options: declare the class with @options, or name a"
        " protobuf message"
    )


def is_options_type(candidate: object) -> bool:
    """Return True for a class declared with ``@options`` and for a protobuf message class."""
    from google.protobuf.message import Message

    return isinstance(candidate, type) and (candidate in SCHEMAS or issubclass(candidate, Message))


def _extension(extended: str, full_name: str) -> FieldType | None:
    usual = find_extension(f"{full_name}.ext")
    if usual is not None and usual.containing_type.full_name == extended:
        return usual
    for extension in extensions_of(extended):
        if extension.message_type is not None and extension.message_type.full_name == full_name:
            return extension
    return None


@overload
def find_options(node_config: Any, options_type: type[T]) -> T: ...
@overload
def find_options(node_config: Any, options_type: str) -> Any: ...
def find_options(node_config: Any, options_type: Any) -> Any:
    """Return the options of this type that a node gives, or the type's defaults.

    ``node_config`` is a ``CalculatorGraphConfig.Node``; the type is given as for
    :meth:`OptionsType.of`. An extension in ``options`` counts alone, even an empty one;
    ``node_options`` are read only without it. Raises GraphConfigError when a type stands twice in
    ``node_options``, or when the class refuses the values.
    """
    kind: OptionsType[Any] = OptionsType.of(options_type)
    refuse_repeated_options(node_config)
    message = _extended(node_config.options, kind)
    if message is None:
        message = _in_any(node_config, kind)
    try:
        return kind.from_message(message if message is not None else kind.message_class())
    except GraphConfigError as error:
        raise GraphConfigError(f"{_node(node_config)}: options {error}", code=error.code) from error


def has_options(node_config: Any, options_type: type[Any] | str) -> bool:
    """Return True if a node gives options of this type, in either place."""
    kind = OptionsType.of(options_type)
    return _extended(node_config.options, kind) is not None or any(
        type_name(held) == kind.full_name for held in node_config.node_options
    )


@overload
def find_extension_options(extended: Any, options_type: type[T]) -> T: ...
@overload
def find_extension_options(extended: Any, options_type: str) -> Any: ...
def find_extension_options(extended: Any, options_type: Any) -> Any:
    """Return the options of this type in a ``MediaPipeOptions``, or the type's defaults.

    For options of executors, stream handlers, status handlers and graphs.
    """
    kind: OptionsType[Any] = OptionsType.of(options_type)
    message = _extended(extended, kind)
    return kind.from_message(message if message is not None else kind.message_class())


def refuse_repeated_options(node_config: Any) -> None:
    """Raise GraphConfigError (INTERNAL) when two of the node's ``node_options`` have one type."""
    seen: set[str] = set()
    for held in node_config.node_options:
        if type_name(held) in seen:
            raise GraphConfigError(
                f"{_node(node_config)}: Options type: '{held.type_url}' specified more than once"
                " for a single calculator node config.",
                code=Code.INTERNAL,
            )
        seen.add(type_name(held))


def merge_options(base: T, value: object) -> T:
    """``base`` with the options in a packet merged over it: set fields win, lists append.

    ``value`` is an object of ``base``'s type or a ``mediapipe.CalculatorOptions``, as in MediaPipe
    ``framework/tool/options_util.h``. In a dataclass, a field that equals its default counts as
    not set.
    Raises PacketTypeError for any other value.
    """
    kind = OptionsType.of(type(base))
    over: Message | None
    if isinstance(value, type(base)):
        over = kind.to_message(value)
    elif is_options_type(type(value)):
        other = OptionsType.of(type(value))
        over = other.to_message(value)
        if other.full_name == CALCULATOR_OPTIONS:
            over = _extended(over, kind)
        elif other.full_name != kind.full_name:
            raise _not_options(kind, value)
    else:
        raise _not_options(kind, value)
    if over is None:
        return base
    merged = kind.to_message(base)
    merged.MergeFrom(over)
    return kind.from_message(merged)


def _not_options(kind: OptionsType[Any], value: object) -> PacketTypeError:
    return PacketTypeError(
        f"an options packet holds {kind.full_name} or {CALCULATOR_OPTIONS}, not {value!r}"
    )


def _extended(container: Any, kind: OptionsType[Any]) -> Message | None:
    """Return the message of this type that extends ``container``, if it is set."""
    extension = _extension(container.DESCRIPTOR.full_name, kind.full_name)
    if extension is None or not container.HasExtension(extension):
        return None
    message: Message = container.Extensions[extension]
    return message


def _in_any(node_config: Any, kind: OptionsType[Any]) -> Message | None:
    from google.protobuf.message import DecodeError

    for held in node_config.node_options:
        if type_name(held) == kind.full_name:
            try:
                return kind.message_class.FromString(held.value)
            except DecodeError:
                raise GraphConfigError(
                    f"{_node(node_config)}: damaged options {kind.full_name}"
                ) from None
    return None


def type_name(held: Any) -> str:
    """Return the full name of the type that a ``google.protobuf.Any`` holds."""
    name: str = held.type_url.rpartition("/")[2]
    return name


def _node(node_config: Any) -> str:
    if node_config.name:
        return f'node "{node_config.name}" ({node_config.calculator})'
    return f"node {node_config.calculator}"
