"""`BuiltCall`: the events of a call whose arguments a model does not write as JSON."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import NamedTuple

from calculators.llm.parsers.events import Arguments, OutputEvent, ToolCall


class BrokenCall(Exception):
    """The text is not, or no longer, that of a call."""


class Argument(NamedTuple):
    """An argument that is complete.

    Attributes:
        value: as JSON.
    """

    name: str
    value: str


class BuiltCall:
    """Builds a compact JSON object, one argument after the other; the first of a name counts.

    The call is announced with its first argument, or with its end: what breaks off before is none.
    """

    __slots__ = ("_names", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._names: set[str] = set()

    @property
    def is_announced(self) -> bool:
        """Has an argument been added?"""
        return bool(self._names)

    def has(self, argument: str) -> bool:
        """Is there an argument of this name already?"""
        return argument in self._names

    def add(self, name: str, value: str) -> list[OutputEvent]:
        """Add an argument. ``value``: JSON, or how a JSON string begins."""
        if name in self._names:
            return []
        member = f"{encode_basestring(name)}:{value}"
        if self._names:
            self._names.add(name)
            return [Arguments("," + member)]
        self._names.add(name)
        return [ToolCall(self.name), Arguments("{" + member)]

    def end(self) -> list[OutputEvent]:
        """There are no more arguments."""
        if self._names:
            return [Arguments("}")]
        return [ToolCall(self.name), Arguments("{}")]
