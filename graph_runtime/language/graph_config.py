"""Graph configurations: read from text, from binary or from a file; written back.

A configuration is a ``mediapipe.CalculatorGraphConfig`` message of the private pool
(``protos/mediapipe/framework/calculator.proto``). Its class is made at run time, so the type
checker sees :data:`CalculatorGraphConfig`, which is ``Any``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from graph_runtime.errors import GraphConfigError, GraphSyntaxError
from graph_runtime.language.text_parser import ANY, MAX_DEPTH, parse_text, read_text, with_others
from graphrt_base.regular_file import read_regular_file
from protos.pool import class_of, find_message, message_class, pool

if TYPE_CHECKING:
    from google.protobuf.message import Message

CalculatorGraphConfig: TypeAlias = Any
"""A ``mediapipe.CalculatorGraphConfig`` message."""

NodeConfig: TypeAlias = Any
"""A ``mediapipe.CalculatorGraphConfig.Node`` message."""

MAX_BYTES = 8 * 1024 * 1024
"""The size up to which a file is taken for a graph. The largest known graphs have some 100 KB."""


def new_graph_config(**fields: Any) -> CalculatorGraphConfig:
    """A configuration with these fields set, for programs that build graphs."""
    return message_class("mediapipe.CalculatorGraphConfig")(**fields)


def parse_graph_text(text: str, *, source: str = "<text>") -> CalculatorGraphConfig:
    """Return the configuration that ``text`` holds in protobuf's text format.

    ``source`` stands before line and column in errors. Raises GraphSyntaxError.
    """
    config = new_graph_config()
    parse_text(text, config, source)
    return config


def parse_graph_binary(data: bytes, *, source: str = "<binary>") -> CalculatorGraphConfig:
    """Return the configuration that ``data`` holds in protobuf's binary format.

    Raises GraphConfigError when it is not one, or when it holds fields, extensions or option types
    that are not registered: they would be lost silently otherwise.
    """
    from google.protobuf.message import DecodeError

    try:
        config = message_class("mediapipe.CalculatorGraphConfig").FromString(data)
    except DecodeError:
        raise GraphConfigError(f"{source}: this is not a binary graph configuration") from None
    _refuse_unknown(config, "graph", source)
    return config


def load_graph_config(
    path: str | os.PathLike[str], *, errors: list[GraphSyntaxError] | None = None
) -> CalculatorGraphConfig:
    """Return the configuration in a file; its content decides whether it is text or binary.

    Given a list ``errors``, errors in options are added to it and the options left out, so that the
    rest of the graph can be checked.

    Raises GraphConfigError when the file cannot be read or is no graph, GraphSyntaxError when its
    text does not parse.
    """
    source = os.fspath(path)
    data = _read(Path(path), source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if _is_binary(data):
            return parse_graph_binary(data, source=source)
        raise _not_utf8(data, error.start, source) from None
    if _is_binary(data):
        return parse_graph_binary(data, source=source)
    return parse_graph_draft(text, source=source, errors=errors)


def parse_graph_draft(
    text: str, *, source: str = "<text>", errors: list[GraphSyntaxError] | None = None
) -> CalculatorGraphConfig:
    """Return the configuration that ``text`` holds; ``errors`` as in `load_graph_config`.

    Raises GraphSyntaxError.
    """
    if errors is None:
        return parse_graph_text(text, source=source)
    config = new_graph_config()
    found: list[GraphSyntaxError] = []
    if not read_text(text, config, source, found):
        raise with_others(found)
    errors += found
    return config


def graph_to_text(config: CalculatorGraphConfig) -> str:
    """Return the configuration in protobuf's text format; ``parse_graph_text`` gives it back."""
    from google.protobuf import text_format

    text: str = text_format.MessageToString(config, as_utf8=True, descriptor_pool=pool())
    return text


def graph_to_binary(config: CalculatorGraphConfig) -> bytes:
    """Return the configuration in protobuf's binary format, the same bytes for the same content."""
    data: bytes = config.SerializePartialToString(deterministic=True)
    return data


def _read(path: Path, source: str) -> bytes:
    try:
        return read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise GraphConfigError(f"{source}: no such file") from None
    except IsADirectoryError:
        raise GraphConfigError(
            f"{source}: this is a directory; name the graph file in it, such as"
            f" {os.path.join(source, 'graph.pbtxt')}"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise GraphConfigError(
                f"{source}: more than {MAX_BYTES} bytes, too large for a graph"
            ) from None
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise GraphConfigError(f"{source}: cannot be read: {reason}") from None


def _is_binary(data: bytes) -> bool:
    """True if the data holds control characters other than blanks: field tags of a binary graph."""
    return any(byte < 0x20 and byte not in b"\t\n\v\f\r" for byte in data)


def _not_utf8(data: bytes, offset: int, source: str) -> GraphSyntaxError:
    before = data[:offset].decode()
    return GraphSyntaxError(
        f"the byte 0x{data[offset]:02x} is not UTF-8",
        source=source,
        line=before.count("\n") + 1,
        column=len(before) - before.rfind("\n"),
        hint="save the file as UTF-8",
    )


def _refuse_unknown(message: Message, where: str, source: str, depth: int = 0) -> None:
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    if depth > MAX_DEPTH:
        raise GraphConfigError(f"{source}: messages are nested more than {MAX_DEPTH} deep")
    name = message.DESCRIPTOR.full_name
    unknown_fields: Any = UnknownFieldSet(message)
    # protobuf keeps unknown fields in silence: an option of another version would have no effect.
    unknown = sorted({field.field_number for field in unknown_fields})
    if unknown:
        numbers = ", ".join(str(number) for number in unknown)
        raise GraphConfigError(
            f"{source}: {where}: {name} has no field or extension with the number {numbers}"
        )
    if name == ANY:
        held: Any = message
        type_name = held.type_url.rpartition("/")[2]
        kind = find_message(type_name)
        if kind is None:
            raise GraphConfigError(
                f'{source}: {where}: no message type "{type_name}" is registered'
            )
        try:
            message = class_of(kind).FromString(held.value)
        except DecodeError:
            raise GraphConfigError(f"{source}: {where}: damaged {type_name}") from None
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        place = f"{where}.{field.name}"
        values = value if hasattr(value, "add") else [value]
        for index, item in enumerate(values):
            inner = f"{place}[{index}]" if values is value else place
            _refuse_unknown(item, inner, source, depth + 1)
