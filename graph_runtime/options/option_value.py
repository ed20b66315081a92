"""``option_value``: single options of a subgraph's node, copied from the options of the graph.

``option_value: "num_lights:options/chain_length"`` on a node copies the field ``chain_length`` of
the graph's options into the field ``num_lights`` of the node's. Facts: MediaPipe
``framework/tool/options_util.cc`` and ``options_field_util.cc``.

``option_value: "OPTIONS:options"`` merges all options of the graph over all of the node's.

Both paths are field names with ``/`` between them; a number after a repeated field picks one entry;
``Ext::package.Type`` at the start picks the options of that type where there are several.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graph_runtime.errors import Code, GraphConfigError, did_you_mean
from graph_runtime.language.graph_config import CalculatorGraphConfig, NodeConfig
from graph_runtime.options.options import type_name
from protos.pool import FieldType, class_of, find_message, is_repeated

if TYPE_CHECKING:
    from google.protobuf.message import Message

_SINGLE_COLON = re.compile(r"(?<!:):(?!:)")
_TYPE_MARK = "ext::"


@dataclass(frozen=True)
class _Path:
    """``text`` as written; the options type it asks for, if any; field names and indexes."""

    text: str
    options_type: str | None
    steps: tuple[tuple[str, int | None], ...]


def copy_option_values(
    node: NodeConfig, graph: CalculatorGraphConfig, parent: NodeConfig | None = None
) -> NodeConfig:
    """``node`` with its ``option_value`` entries applied and removed, as a new message.

    ``graph`` is the configuration that contains ``node``, ``parent`` the subgraph node that it is
    expanded for: its options are merged over the graph's. Without graph options nothing is
    copied. The node's changed options stand in ``node_options`` afterwards. Raises
    GraphConfigError when the node has no options to copy into, or a path names no field.
    """
    changed = type(node)()
    changed.CopyFrom(node)
    for entry in node.option_value:
        try:
            _copy(entry, changed, graph, parent)
        except GraphConfigError as error:
            raise GraphConfigError(
                f"{error} for node (name='{node.name}', calculator='{node.calculator}'),"
                f' option_value: "{entry}"',
                code=error.code,
            ) from None
    del changed.option_value[:]
    return changed


def _copy(
    entry: str, node: NodeConfig, graph: CalculatorGraphConfig, parent: NodeConfig | None
) -> None:
    sides = _SINGLE_COLON.split(entry)
    if len(sides) != 2:
        raise GraphConfigError('expected "node_field:options/graph_field"')
    target, source = _path(sides[0]), _path(sides[1])
    given = _graph_options(graph, parent, source.options_type)
    options, url = _node_options(node, target.options_type)
    if options is None:
        raise GraphConfigError(
            f"Option extension not found: {target.options_type or '*'}", code=Code.NOT_FOUND
        )
    if bool(target.steps) is not bool(source.steps):
        raise GraphConfigError(
            f'"{entry}" copies a field to all options or all options to a field; name fields on'
            " both sides, or on neither"
        )
    if given is None:
        return
    if not target.steps:
        if options.DESCRIPTOR.full_name != given.DESCRIPTOR.full_name:
            raise GraphConfigError(
                "Cannot merge field data with message types:"
                f" {options.DESCRIPTOR.full_name}, {given.DESCRIPTOR.full_name}"
            )
        options.MergeFrom(given)
    else:
        _write(options, target, _read(given, source))
    _put_back(node, options, url)


def _path(text: str) -> _Path:
    names = text.split("/")
    if names and names[0] in ("OPTIONS", "options"):
        names = names[1:]
    options_type = None
    steps: list[tuple[str, int | None]] = []
    for name in names:
        if name[: len(_TYPE_MARK)].lower() == _TYPE_MARK and not steps:
            options_type = name[len(_TYPE_MARK) :]
        elif name.isdecimal() and steps:
            steps[-1] = (steps[-1][0], int(name))
        elif name:
            steps.append((name, None))
    if not steps and text not in ("OPTIONS", "options"):
        raise GraphConfigError(f'"{text}" names no field')
    return _Path(text, options_type, tuple(steps))


def _graph_options(
    graph: CalculatorGraphConfig, parent: NodeConfig | None, wanted: str | None
) -> Message | None:
    own, _ = _find(graph.options, graph.graph_options, wanted)
    over = _node_options(parent, wanted)[0] if parent is not None else None
    if own is None or over is None:
        return own if over is None else over
    if own.DESCRIPTOR.full_name != over.DESCRIPTOR.full_name:
        raise GraphConfigError(
            "Cannot merge field data with message types:"
            f" {own.DESCRIPTOR.full_name}, {over.DESCRIPTOR.full_name}"
        )
    own.MergeFrom(over)
    return own


def _node_options(node: NodeConfig, wanted: str | None) -> tuple[Message | None, str | None]:
    return _find(node.options, node.node_options, wanted)


def _find(extended: Any, anys: Any, wanted: str | None) -> tuple[Message | None, str | None]:
    """A copy of the options that a path means, and the URL of their Any if they are in one.

    An extension counts before an Any; if the path names no type, the first options count.
    """
    for field, value in extended.ListFields():
        kind = field.message_type if field.is_extension else None
        if kind is not None and wanted in (None, kind.full_name):
            copy: Message = type(value)()
            copy.CopyFrom(value)
            return copy, None
    for held in anys:
        kind = find_message(type_name(held))
        if kind is not None and wanted in (None, kind.full_name):
            return class_of(kind).FromString(held.value), held.type_url
    return None, None


def _read(message: Message, path: _Path) -> list[Any]:
    """Return all values of the field at the end of the path: none when it is not set."""
    *outer, (name, index) = path.steps
    for step, at in outer:
        found = _values(message, _field(message, step, path))
        if len(found) <= (at or 0):
            raise _out_of_range(step, at or 0)
        message = _message(found[at or 0], step, path)
    values = _values(message, _field(message, name, path))
    if index is None:
        return values
    if len(values) <= index:
        raise _out_of_range(name, index)
    return [values[index]]


def _write(message: Any, path: _Path, values: list[Any]) -> None:
    """Replace the field, or one entry of it, by the values; messages merge over those there."""
    *outer, (name, index) = path.steps
    for step, at in outer:
        found = _values(message, _field(message, step, path))
        if len(found) <= (at or 0):
            raise _out_of_range(step, at or 0)
        message = _message(found[at or 0], step, path)
    field = _field(message, name, path)
    if field.message_type is not None:
        present = _values(message, field)
        if index is not None:
            if len(present) <= index:
                raise _out_of_range(name, index)
            present = present[index : index + 1]
        values = [_merged(field, old, new) for old, new in _paired(present, values)]
    if not is_repeated(field):
        _set_single(message, field, values)
        return
    kept = getattr(message, field.name)
    if index is None:
        del kept[:]
        _extend(kept, field, values)
        return
    if len(kept) <= index:
        raise _out_of_range(name, index)
    entries = [*kept[:index], *values, *kept[index + 1 :]]
    entries = [_copied(entry) for entry in entries]
    del kept[:]
    _extend(kept, field, entries)


def _set_single(message: Any, field: FieldType, values: list[Any]) -> None:
    message.ClearField(field.name)
    if len(values) > 1:
        raise GraphConfigError(f"{field.name} takes one value, not {len(values)}")
    for value in values:
        if field.message_type is not None:
            getattr(message, field.name).CopyFrom(value)
        else:
            try:
                setattr(message, field.name, value)
            except (TypeError, ValueError):
                raise _wrong_type(field, value) from None


def _extend(container: Any, field: FieldType, values: list[Any]) -> None:
    for value in values:
        try:
            if field.message_type is not None:
                container.add().CopyFrom(value)
            else:
                container.append(value)
        except (TypeError, ValueError):
            raise _wrong_type(field, value) from None


def _values(message: Any, field: FieldType) -> list[Any]:
    value = getattr(message, field.name)
    if is_repeated(field):
        return list(value)
    if field.has_presence:
        return [value] if message.HasField(field.name) else []
    return [value] if value != field.default_value else []


def _paired(present: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    return [(present[at] if at < len(present) else None, value) for at, value in enumerate(values)]


def _merged(field: FieldType, old: Any, new: Any) -> Any:
    wanted = field.message_type.full_name
    if not hasattr(new, "DESCRIPTOR") or new.DESCRIPTOR.full_name != wanted:
        raise _wrong_type(field, new)
    result = type(new)()
    if old is not None:
        result.CopyFrom(old)
    result.MergeFrom(new)
    return result


def _copied(entry: Any) -> Any:
    if not hasattr(entry, "DESCRIPTOR"):
        return entry
    copy = type(entry)()
    copy.CopyFrom(entry)
    return copy


def _field(message: Message, name: str, path: _Path) -> FieldType:
    kind = message.DESCRIPTOR
    field = kind.fields_by_name.get(name)
    if field is None:
        raise GraphConfigError(
            f'"{path.text}": {kind.full_name} has no field "{name}".'
            + did_you_mean(name, kind.fields_by_name)
        )
    return field


def _message(value: Any, name: str, path: _Path) -> Message:
    if not hasattr(value, "DESCRIPTOR"):
        raise GraphConfigError(f'"{path.text}": "{name}" is a value and has no fields')
    message: Message = value
    return message


def _put_back(node: NodeConfig, options: Message, url: str | None) -> None:
    name = options.DESCRIPTOR.full_name
    wanted = url or f"type.googleapis.com/{name}"
    held = next((item for item in node.node_options if item.type_url == wanted), None)
    if held is None:
        held = node.node_options.add(type_url=wanted)
    held.value = options.SerializePartialToString()
    for field, _ in node.options.ListFields():
        kind = field.message_type if field.is_extension else None
        if kind is not None and kind.full_name == name:
            node.options.ClearExtension(field)
    if not node.options.ByteSize():
        node.ClearField("options")


def _out_of_range(name: str, index: int) -> GraphConfigError:
    return GraphConfigError(
        f"Missing field value: {name} at index: {index}", code=Code.OUT_OF_RANGE
    )


def _wrong_type(field: FieldType, value: Any) -> GraphConfigError:
    shown = value.DESCRIPTOR.full_name if hasattr(value, "DESCRIPTOR") else repr(value)
    return GraphConfigError(f"{field.full_name} cannot take {shown}")
