"""`CallReader`: a call of a tool that is a JSON object with a name and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from enum import Enum, auto
from typing import Final

from calculators.language.events import Arguments, OutputEvent, ToolCall
from calculators.llm.parsers.json_scanner import JsonScanner, skip_blanks

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class CallState(Enum):
    """The progress of reading a call."""

    READING = auto()
    #: The object is closed.
    DONE = auto()
    #: The text at the place where `CallReader.read` stopped is not part of a call.
    BROKEN = auto()


class _Part(Enum):
    BRACE = auto()
    FIRST_KEY = auto()
    KEY = auto()
    IN_KEY = auto()
    COLON = auto()
    VALUE = auto()
    IN_VALUE = auto()
    NEXT = auto()


class _Role(Enum):
    """The role of a member of the object."""

    NAME = auto()
    ARGUMENTS = auto()
    ARGUMENTS_TEXT = auto()
    OTHER = auto()


class CallReader:
    """Reads one object from its brace on: ``{"name": NAME, "arguments": {...}}``.

    The members may come in any order; other members and repeated ones are skipped. The call is
    announced as soon as its name is known and its arguments have begun; from then on the arguments
    are passed on compactly. Arguments may also be a string that holds an object; they are passed on
    when the string is complete.

    Attributes:
        state: the progress of reading.
        is_announced: the `ToolCall` was returned.
        is_complete: the arguments are complete, whatever else follows in the object.
        raw: the text that is not in events: everything before the call is announced, then the text
            after the arguments.
    """

    __slots__ = (
        "_argument_keys",
        "_first_keys",
        "_held",
        "_key",
        "_name",
        "_out",
        "_part",
        "_role",
        "_scanner",
        "is_announced",
        "is_complete",
        "raw",
        "state",
    )

    def __init__(self, argument_keys: Set[str], first_keys: Set[str] | None = None) -> None:
        """``argument_keys``: the names that the member with the arguments may have.

        ``first_keys``: an object that begins with another member is no call; None is any.
        """
        self.state = CallState.READING
        self.is_announced = False
        self.is_complete = False
        self.raw: list[str] = []
        self._argument_keys = argument_keys
        self._first_keys = first_keys
        self._part = _Part.BRACE
        self._role = _Role.OTHER
        self._scanner = JsonScanner()
        self._out: list[str] = []
        self._key = ""
        self._name = ""
        self._held: list[str] | None = None

    def read(self, text: str, place: int, events: list[OutputEvent]) -> int:
        """Read ``text`` from ``place`` on, append to ``events``, return the place of the stop."""
        size = len(text)
        while place < size and self.state is CallState.READING:
            begin, is_behind = place, self.is_announced and self.is_complete
            if self._part is _Part.IN_VALUE:
                place = self._read_value(text, place, events)
            elif self._part is _Part.IN_KEY:
                place = self._read_key(text, place)
            else:
                place = skip_blanks(text, place)
                if place < size:
                    place = self._read_structure(text, place, events)
            if is_behind or not self.is_announced:
                self.raw.append(text[begin:place])
        return place

    def _read_structure(self, text: str, place: int, events: list[OutputEvent]) -> int:
        character, part = text[place], self._part
        if part is _Part.BRACE and character == "{":
            self._part = _Part.FIRST_KEY
        elif part is _Part.COLON and character == ":":
            self._part = _Part.VALUE
        elif part is _Part.NEXT and character == ",":
            self._part = _Part.KEY
            self._first_keys = None
        elif (part is _Part.NEXT or part is _Part.FIRST_KEY) and character == "}":
            self.state = CallState.DONE
        elif (part is _Part.KEY or part is _Part.FIRST_KEY) and character == '"':
            self._begin(_Part.IN_KEY)
            return place
        elif part is _Part.VALUE:
            self._begin_value(character, events)
            return place
        else:
            self.state = CallState.BROKEN
            return place
        return place + 1

    def _begin(self, part: _Part) -> None:
        self._part = part
        self._scanner = JsonScanner()
        self._out = []

    def _read_key(self, text: str, place: int) -> int:
        place = self._scanner.read(text, place, self._out)
        if self._scanner.is_done:
            self._key = json.loads("".join(self._out))
            self._part = _Part.COLON
            if self._first_keys is not None and self._key not in self._first_keys:
                self.state = CallState.BROKEN
        elif self._scanner.is_broken:
            self.state = CallState.BROKEN
        return place

    def _begin_value(self, character: str, events: list[OutputEvent]) -> None:
        self._begin(_Part.IN_VALUE)
        self._role = _Role.OTHER
        if self._key == "name" and not self._name:
            self._role = _Role.NAME
            if character != '"':
                self.state = CallState.BROKEN
        elif self._key in self._argument_keys and self._held is None:
            self._held = []
            if character == "{":
                self._role = _Role.ARGUMENTS
                self._announce(events)
            elif character == '"':
                self._role = _Role.ARGUMENTS_TEXT
            else:
                self.state = CallState.BROKEN

    def _read_value(self, text: str, place: int, events: list[OutputEvent]) -> int:
        out: list[str] = []
        place = self._scanner.read(text, place, out)
        if self._role is _Role.ARGUMENTS:
            self._pass_on(out, events)
        elif self._role is not _Role.OTHER:
            self._out += out
        if self._scanner.is_done:
            self._part = _Part.NEXT
            self._end_value(events)
        elif self._scanner.is_broken:
            self.state = CallState.BROKEN
        return place

    def _end_value(self, events: list[OutputEvent]) -> None:
        if self._role is _Role.NAME:
            name: str = json.loads("".join(self._out))
            if not name or _SURROGATE.search(name):
                self.state = CallState.BROKEN
                return
            self._name = name
            self._announce(events)
        elif self._role is _Role.ARGUMENTS:
            self.is_complete = True
        elif self._role is _Role.ARGUMENTS_TEXT:
            compact = _compact_object(json.loads("".join(self._out)))
            if compact is None:
                self.state = CallState.BROKEN
                return
            self.is_complete = True
            self._pass_on([compact], events)
            self._announce(events)

    def _pass_on(self, arguments: list[str], events: list[OutputEvent]) -> None:
        if self.is_announced:
            events += [Arguments("".join(arguments))] if arguments else []
        elif self._held is not None:
            self._held += arguments

    def _announce(self, events: list[OutputEvent]) -> None:
        """Announce the call if name and arguments are there, with the arguments that waited."""
        waits_for_text = self._role is _Role.ARGUMENTS_TEXT and not self.is_complete
        if not self._name or self._held is None or waits_for_text:
            return
        self.is_announced = True
        self.raw.clear()
        events.append(ToolCall(self._name))
        held, self._held = self._held, []
        self._pass_on(held, events)


def _compact_object(text: str) -> str | None:
    """Return the object in ``text`` without white space; None if ``text`` is not one object."""
    scanner, out = JsonScanner(), list[str]()
    begin = skip_blanks(text, 0)
    if not text.startswith("{", begin):
        return None
    end = scanner.read(text, begin, out)
    if not scanner.is_done or skip_blanks(text, end) != len(text) or _SURROGATE.search(text):
        return None
    return "".join(out)
