"""The private descriptor pool of all messages of graphrt and of authors.

Protobuf's default pool is one per process. A process that also imports MediaPipe or a KServe client
would register ``mediapipe.*`` or ``inference.*`` there a second time, which protobuf refuses. This
pool is private, so both can exist side by side; classes of one pool are not classes of the other.

Message classes are made at run time, so a type checker cannot know them: ``Message`` says "some
protobuf message", ``Any`` says "a message of the type that the docstring names".

Nothing is loaded when this module is imported: protobuf itself takes most of the 20 ms that the
first use costs, and a command that shows its help need not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_DESCRIPTOR_SET = Path(__file__).with_name("descriptor_set.binpb")

MessageType: TypeAlias = Any
"""The descriptor of a message type. (Protobuf's own stubs know two unrelated classes for it.)"""

FieldType: TypeAlias = Any
"""The descriptor of a field or extension."""

EnumType: TypeAlias = Any
"""The descriptor of an enum."""

_lock = threading.RLock()
_pool: DescriptorPool | None = None  # written once, guarded by: _lock
# Every class of the pool, for ever. Protobuf itself refers to classes weakly: where one was garbage
# while another thread looked it up, protobuf 6.33.6 ended the process with SIGSEGV.
_classes: list[type[Message]] = []  # guarded by: _lock
_added: dict[str, bytes] = {}  # file name -> serialized file; guarded by: _lock


def pool() -> DescriptorPool:
    """The pool. Pass it as ``descriptor_pool`` to ``text_format`` and ``json_format``."""
    global _pool
    if _pool is None:
        from google.protobuf import descriptor_pool

        with _lock:
            if _pool is None:
                loaded = descriptor_pool.DescriptorPool()
                for file in _files(descriptor_set()):
                    _keep_classes(loaded.AddSerializedFile(file).message_types_by_name.values())
                _pool = loaded
    return _pool


def _keep_classes(message_types: Iterable[MessageType]) -> None:
    for message_type in message_types:
        _classes.append(class_of(message_type))
        _keep_classes(message_type.nested_types)


def descriptor_set() -> bytes:
    """The serialized ``FileDescriptorSet`` of all ``.proto`` files here, with their comments."""
    return _DESCRIPTOR_SET.read_bytes()


def _files(content: bytes) -> Iterator[bytes]:
    """The files of a serialized ``FileDescriptorSet``: field 1, length-delimited, nothing else.

    Read by hand because parsing 50 files only to serialize each again takes longer than this.
    """
    at = 0
    while at < len(content):
        if content[at] != 0x0A:
            raise ValueError(f"{_DESCRIPTOR_SET.name} is damaged at byte {at}")
        at += 1
        length = shift = 0
        while True:
            byte = content[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield content[at : at + length]
        at += length


def message_class(full_name: str) -> type[Message]:
    """The class of the message type ``full_name``, for example ``"mediapipe.InputStreamInfo"``.

    Raises KeyError when the pool has no such type.
    """
    return class_of(pool().FindMessageTypeByName(full_name))


def class_of(message_type: MessageType) -> type[Message]:
    """The class of a message type, whichever pool it is from."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(message_type)


def find_message(full_name: str) -> MessageType | None:
    """The message type ``full_name``, or None."""
    try:
        return pool().FindMessageTypeByName(full_name)
    except KeyError:
        return None


def find_extension(full_name: str) -> FieldType | None:
    """The extension ``full_name``, such as ``"mediapipe.GateCalculatorOptions.ext"``, or None."""
    try:
        return pool().FindExtensionByName(full_name)
    except KeyError:
        return None


def extensions_of(full_name: str) -> list[FieldType]:
    """All extensions of the message type ``full_name``, in order of their names."""
    found = pool().FindAllExtensions(pool().FindMessageTypeByName(full_name))
    return sorted(found, key=lambda extension: extension.full_name)


def is_repeated(field: FieldType) -> bool:
    """True if the field holds a list or a map."""
    # protobuf 6.30 has only `label`, protobuf 7.36 only `is_repeated`.
    known = getattr(field, "is_repeated", None)
    return bool(known) if known is not None else field.label == 3


def is_required(field: FieldType) -> bool:
    """True if a message without the field is refused (proto2 ``required``)."""
    known = getattr(field, "is_required", None)
    return bool(known) if known is not None else field.label == 2


def add_file(file: FileDescriptorProto) -> None:
    """Add a file of message types, whose dependencies must be in the pool already.

    Adding the same file again does nothing. Raises ValueError when the name is taken by another
    file, or when a symbol or an extension number of the file is taken.
    """
    serialized = file.SerializeToString(deterministic=True)
    with _lock:
        if _added.get(file.name) == serialized:
            return
        if file.name in _added or has_file(file.name):
            raise ValueError(f'"{file.name}" is registered already, with other content')
        _refuse_taken_names(file)
        try:
            added = pool().AddSerializedFile(serialized)
        except TypeError as error:  # raised by protobuf for a file that it cannot use
            raise ValueError(f'the file "{file.name}" cannot be registered: {error}') from error
        _added[file.name] = serialized
        _keep_classes(added.message_types_by_name.values())


def adopt(message_type: MessageType) -> MessageType:
    """The message type of this pool that is the same as ``message_type`` of another pool.

    Adds the file of ``message_type`` and the files it imports where they are missing, so that the
    classes of an author's ``*_pb2`` module, which live in protobuf's default pool, can be named in
    graphs. Types that are here already, such as ``mediapipe.CalculatorOptions``, are kept as they
    are. Raises ValueError when a type of an author has changed since it was added.
    """
    if message_type.file.pool is pool():
        return message_type
    with _lock:
        adopted = find_message(message_type.full_name)
        if adopted is None:
            _adopt_file(message_type.file)
            adopted = pool().FindMessageTypeByName(message_type.full_name)
        elif adopted.file.name in _added and _described(adopted) != _described(message_type):
            raise ValueError(
                f"{message_type.full_name} is registered already with other fields; a process"
                " needs a new start to change a message type"
            )
    return adopted


def _adopt_file(file: FileDescriptor) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    adopted = FileDescriptorProto.FromString(file.serialized_pb)
    # Every imported file is named directly, so it no longer matters which imports were public, nor
    # that the author's protoc may know our files under other paths than this pool does.
    del adopted.dependency[:], adopted.public_dependency[:], adopted.weak_dependency[:]
    names: dict[str, None] = {}
    for imported in _imports(file):
        names.update(dict.fromkeys(_names_here(imported)))
    adopted.dependency.extend(names)
    add_file(adopted)


def _imports(file: FileDescriptor) -> Iterable[FileDescriptor]:
    """All files that ``file`` imports, directly or through others, each once, imports first."""
    found: dict[str, FileDescriptor] = {}

    def visit(importing: FileDescriptor) -> None:
        for imported in importing.dependencies:
            if imported.name not in found:
                visit(imported)
                found[imported.name] = imported

    visit(file)
    return found.values()


def _names_here(file: FileDescriptor) -> list[str]:
    """The names of the files of this pool that hold what ``file`` of another pool holds."""
    if has_file(file.name):
        return [file.name]
    here = [find_message(kind.full_name) for kind in file.message_types_by_name.values()]
    known = [kind.file.name for kind in here if kind is not None]
    if known and len(known) == len(here):
        return known
    _adopt_file(file)
    return [file.name]


def has_file(name: str) -> bool:
    """True if a file is registered under ``name``."""
    try:
        pool().FindFileByName(name)
    except KeyError:
        return False
    return True


def _described(message_type: MessageType) -> DescriptorProto:
    from google.protobuf.descriptor_pb2 import DescriptorProto

    description = DescriptorProto()
    message_type.CopyToProto(description)
    return description


def _refuse_taken_names(file: FileDescriptorProto) -> None:
    """Raise before protobuf does: its text does not say which file has the name or number."""
    prefix = f"{file.package}." if file.package else ""
    for kind in file.message_type:
        taken = find_message(prefix + kind.name)
        if taken is not None:
            raise ValueError(f'"{taken.file.name}" has the message type {taken.full_name} already')
    extensions = [*file.extension, *(ext for kind in file.message_type for ext in kind.extension)]
    for extension in extensions:
        extended = find_message(extension.extendee.lstrip("."))
        if extended is None:
            continue
        for other in pool().FindAllExtensions(extended):
            if other.number == extension.number:
                raise ValueError(
                    f"extension number {extension.number} of {extended.full_name} belongs to"
                    f" {other.full_name}"
                )
