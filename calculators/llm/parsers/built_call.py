"""`BuiltCall`: the events of a call whose arguments a model does not write as JSON."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import NamedTuple

from calculators.language.events import Arguments, OutputEvent, ToolCall


class BrokenCall(Exception):
    """The text is not a call, or stopped being one."""


class Argument(NamedTuple):
    """A complete argument. ``value``: as JSON."""

    name: str
    value: str


class BuiltCall:
    """Builds a compact JSON object, one argument after the other; of one name the first counts.

    The call is announced with its first argument, or with its end. Text that breaks off before
    either is not a call.
    """

    __slots__ = ("_names", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._names: set[str] = set()

    @property
    def is_announced(self) -> bool:
        """True once an argument has been added."""
        return bool(self._names)

    def has(self, argument: str) -> bool:
        """True if an argument of this name has been added."""
        return argument in self._names

    def add(self, name: str, value: str) -> list[OutputEvent]:
        """Add an argument and return the events. ``value``: JSON, or the start of a JSON string."""
        if name in self._names:
            return []
        member = f"{encode_basestring(name)}:{value}"
        if self._names:
            self._names.add(name)
            return [Arguments("," + member)]
        self._names.add(name)
        return [ToolCall(self.name), Arguments("{" + member)]

    def end(self) -> list[OutputEvent]:
        """End the arguments and return the events."""
        if self._names:
            return [Arguments("}")]
        return [ToolCall(self.name), Arguments("{}")]
