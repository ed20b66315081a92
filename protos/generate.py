"""Compile every ``.proto`` file below this folder into ``descriptor_set.binpb``.

Run ``python -m protos.generate`` after changing a ``.proto`` file. There is no generated Python
code: ``protos.pool`` builds the message classes from the descriptor set when they are first used,
so one checked-in file serves every supported version of protobuf.

It writes ``messages.pyi`` too, the types of the messages of `protos.messages`. Generators for
protoc, such as mypy-protobuf, write a module for each ``.proto`` file, to stand beside generated
code; here the classes come from a pool at run time and stand in one module.

Files are registered under their path relative to this folder. For MediaPipe's files that is the
path MediaPipe itself uses, so a ``.proto`` file written for MediaPipe compiles against this folder
unchanged: ``protoc -I protos -I . --python_out=. my_calculator.proto``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Final

from protos.messages import PACKAGES

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
    )

ROOT = Path(__file__).parent
OUTPUT = ROOT / "descriptor_set.binpb"
STUBS = ROOT / "messages.pyi"


def compiled() -> bytes:
    """The serialized ``FileDescriptorSet``, each file after the files it imports."""
    import grpc_tools  # type: ignore[import-untyped]
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted(str(path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*.proto"))
    # Not imported by any file here, but texts may hold them in an Any.
    sources.append("google/protobuf/wrappers.proto")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / OUTPUT.name
        arguments = [
            f"-I{ROOT}",
            f"-I{well_known}",
            "--include_imports",
            "--include_source_info",
            f"-o{output}",
            *sources,
        ]
        if protoc.main(["protoc", *arguments]) != 0:
            raise SystemExit("protoc refused the files above")
        return _with_comments_only(output.read_bytes())


def _with_comments_only(content: bytes) -> bytes:
    """The set without the source positions of uncommented elements, which are most of its size."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = FileDescriptorSet.FromString(content)
    for file in files.file:
        kept = [
            place
            for place in file.source_code_info.location
            if place.path and (place.leading_comments or place.trailing_comments)
        ]
        ours = not file.name.startswith("google/")
        file.ClearField("source_code_info")
        for place in kept if ours else []:
            file.source_code_info.location.add(
                path=place.path,
                leading_comments=place.leading_comments,
                trailing_comments=place.trailing_comments,
            )
    return files.SerializeToString(deterministic=True)


_HEAD: Final = """\
# Made by `python -m protos.generate`; do not edit.
import builtins
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, overload

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer as Messages,
    RepeatedScalarFieldContainer as Scalars,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper as Enum
from google.protobuf.internal.extension_dict import _ExtensionFieldDescriptor as Extension
from google.protobuf.message import Message

PACKAGES: Final[tuple[str, ...]]
"""
#: Python's types of protobuf's scalars, by ``FieldDescriptorProto.Type``.
_SCALARS: Final = {1: "float", 2: "float", 8: "bool", 9: "str", 12: "bytes"}
_ENUM: Final = 14
#: A constructor takes the name of an enum's member too.
_ENUM_GIVEN: Final = "builtins.int | builtins.str"
_MESSAGES: Final = (10, 11)
_REPEATED: Final = 3
_FOREIGN: Final = {".google.protobuf.Any": "AnyMessage"}


def stubs(content: bytes) -> str:
    """Return the text of the stub file for a serialized ``FileDescriptorSet``."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    lines = [_HEAD]
    for file in FileDescriptorSet.FromString(content).file:
        if file.package in PACKAGES:
            for kind in file.message_type:
                lines += _message(kind)
    return "\n".join(lines) + "\n"


def _message(kind: DescriptorProto) -> Iterator[str]:
    """Yield the lines of a message class."""
    entries = {each.name: each for each in kind.nested_type if each.options.map_entry}
    yield f"class {kind.name}(Message):"
    for inner in kind.nested_type:
        if inner.name not in entries and not iskeyword(inner.name):
            yield from _indented(_message(inner))
    for enum in kind.enum_type:
        yield from _indented(_enum(enum))
    for extension in kind.extension:
        extended = _name(extension.extendee)
        yield (f"    {extension.name}: ClassVar[Extension[{extended}, {_value(extension)}]]")
    arguments = []
    # What is named as a keyword of Python is read with `getattr`.
    for each in (each for each in kind.field if not iskeyword(each.name)):
        held, given = _types(each, entries)
        if each.label == _REPEATED or each.type in _MESSAGES:
            yield f"    @property\n    def {each.name}(self) -> {held}: ..."
        else:
            yield f"    {each.name}: {held}"
        arguments.append(f"{each.name}: {given} | None = None")
    if arguments:
        yield f"    def __init__(self, *, {', '.join(arguments)}) -> None: ..."
        present = [each.name for each in kind.field if each.label != _REPEATED]
        oneofs = [each.name for each in kind.oneof_decl if not each.name.startswith("_")]
        if present:
            known = _literal([*present, *oneofs])
            yield f"    def HasField(self, field_name: {known}) -> builtins.bool: ..."
        for group in oneofs:
            index = [each.name for each in kind.oneof_decl].index(group)
            within = [
                each.name
                for each in kind.field
                if each.HasField("oneof_index") and each.oneof_index == index
            ]
            if len(oneofs) > 1:
                yield "    @overload"
            asked, known = _literal([group]), _literal(within)
            yield f"    def WhichOneof(self, oneof_group: {asked}) -> {known} | None: ..."
    else:
        yield "    def __init__(self) -> None: ..."


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield "\n".join(f"    {part}" for part in line.split("\n"))


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    """Yield an enum, which names its members, and the members, which are whole numbers."""
    yield f"{enum.name}: ClassVar[Enum]"
    for member in enum.value:
        if not iskeyword(member.name):
            yield f"{member.name}: ClassVar[builtins.int]"


def _types(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> tuple[str, str]:
    """Return the type of a field's value, and that of the argument of the constructor."""
    one = _value(field)
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == _REPEATED else None
    if entry is not None:
        key, value = entry.field
        kind = "MessageMap" if value.type in _MESSAGES else "ScalarMap"
        types = f"[{_value(key)}, {_value(value)}]"
        return f"{kind}{types}", f"Mapping{types}"
    if field.label == _REPEATED:
        kind = "Messages" if field.type in _MESSAGES else "Scalars"
        given = f"{one} | Mapping[builtins.str, Any]" if field.type in _MESSAGES else one
        return (
            f"{kind}[{one}]",
            f"Iterable[{given if field.type != _ENUM else 'builtins.int | builtins.str'}]",
        )
    if field.type in _MESSAGES:
        return one, f"{one} | Mapping[builtins.str, Any]"
    return one, _ENUM_GIVEN if field.type == _ENUM else one


def _value(field: FieldDescriptorProto) -> str:
    """Return the type of one value of a field."""
    if field.type in _MESSAGES:
        return _name(field.type_name)
    # A field may have the name of a type.
    return f"builtins.{_SCALARS.get(field.type, 'int')}"


def _name(full_name: str) -> str:
    """Return a message's name in the stub file."""
    for package in PACKAGES:
        name = full_name.removeprefix(f".{package}.")
        if name != full_name and not any(map(iskeyword, name.split("."))):
            return name
    return _FOREIGN.get(full_name, "Message")


def _literal(names: Iterable[str]) -> str:
    return f"Literal[{', '.join(map(repr, names))}]".replace("'", '"')


def main() -> None:
    content = compiled()
    OUTPUT.write_bytes(content)
    print(f"{OUTPUT}: {len(content)} bytes", file=sys.stderr)
    text = stubs(content)
    STUBS.write_text(text, encoding="utf-8")
    print(f"{STUBS}: {len(text)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
