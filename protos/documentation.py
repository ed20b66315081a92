"""The comments of the ``.proto`` files, for commands that describe options to people.

The descriptor set carries them; the pool does not read them, so they cost nothing until asked for.
"""

from __future__ import annotations

import functools

from protos.pool import descriptor_set

# Field numbers of FileDescriptorProto.message_type, DescriptorProto.field and .nested_type: the
# path of a comment is made of these numbers and of indexes.
_MESSAGE, _FIELD, _NESTED = 4, 2, 3


def comments_of(full_name: str) -> dict[str, str]:
    """The comments of a message type's fields, by name; empty for types of authors."""
    return _comments().get(full_name, {})


@functools.cache
def _comments() -> dict[str, dict[str, str]]:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

    found: dict[str, dict[str, str]] = {}

    def collect(
        kind: DescriptorProto, scope: str, path: tuple[int, ...], texts: dict[tuple[int, ...], str]
    ) -> None:
        name = f"{scope}.{kind.name}" if scope else kind.name
        places = {field.name: (*path, _FIELD, at) for at, field in enumerate(kind.field)}
        found[name] = {field: texts[at] for field, at in places.items() if at in texts}
        for at, nested in enumerate(kind.nested_type):
            collect(nested, name, (*path, _NESTED, at), texts)

    for file in FileDescriptorSet.FromString(descriptor_set()).file:
        texts = {
            tuple(place.path): " ".join((place.leading_comments + place.trailing_comments).split())
            for place in file.source_code_info.location
        }
        for at, kind in enumerate(file.message_type):
            collect(kind, file.package, (_MESSAGE, at), texts)
    return found
