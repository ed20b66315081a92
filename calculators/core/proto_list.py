"""Protobuf messages that are a list: ``LandmarkList``, ``ClassificationList``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from graph_runtime import Calculator


@runtime_checkable
class ArrayList(Protocol):
    """A packet that stands for a list message and holds an array, such as `Landmarks`."""

    def __len__(self) -> int: ...

    def selected(self, ranges: Sequence[tuple[int, int]]) -> Self:
        """Return the elements of these ranges, each begin <= place < end."""

    @classmethod
    def joined(cls, lists: Sequence[Self]) -> Self:
        """Return all elements of several lists."""


class ProtoListCalculator(Calculator):
    """Base of calculators on messages with one repeated field."""

    #: The name of the repeated field.
    field: ClassVar[str] = ""

    def items_of(self, message: Any) -> Any:
        """The elements of a list message."""
        return getattr(message, self.field)

    def message_of(self, kind: type, items: Iterable[Any]) -> Any:
        """A new list message of type ``kind``."""
        message = kind()
        self.items_of(message).extend(items)
        return message


P = TypeVar("P", bound=ProtoListCalculator)


def proto_list_variants(base: type[P], fields: Mapping[str, str]) -> list[type[P]]:
    """``base`` once per (name, repeated field)."""
    return [
        type(
            name,
            (base,),
            {"field": field, "__doc__": base.__doc__, "__module__": base.__module__},
        )
        for name, field in fields.items()
    ]
