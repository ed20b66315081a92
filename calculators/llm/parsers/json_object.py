"""`CallObject`: a call that is a JSON object with name and arguments, read as it grows."""

from __future__ import annotations

import json
import re
from typing import Final

from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.json_scanner import JsonScanner, skip_blanks

#: What may stand in an object that is a call without a mark, beside name and arguments.
_BARE_KEYS: Final = frozenset(("type", "id", "tool_call_id"))
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Where reading is. Plain numbers, because members of an enumeration cost as much as all the rest.
_BRACE: Final = 0
_FIRST_KEY: Final = 1
_KEY: Final = 2
_IN_KEY: Final = 3
_COLON: Final = 4
_VALUE: Final = 5
_IN_VALUE: Final = 6
_NEXT: Final = 7
# What a member is.
_NAME: Final = 0
_ARGUMENTS: Final = 1
_ARGUMENTS_TEXT: Final = 2
_OTHER: Final = 3


class CallObject:
    """Reads one object from its brace on: ``{"name": NAME, "arguments": {...}}``.

    The members may come in any order; other members and repeated ones are skipped. The call may be
    announced as soon as its name is known and its arguments have begun; from then on the arguments
    are passed on compactly. They may also be a text that holds an object, which is passed on when
    it is complete, null, or missing.

    Attributes:
        name: of the tool.
        is_announced: name and arguments are known.
        is_complete: the arguments are complete, whatever else follows in the object.
        is_ended: the object is closed, or the text is none of a call.
        is_broken: the text at the place where `read` stopped is not part of a call.
    """

    def __init__(self, calls: CallSyntax, *, is_bare: bool) -> None:
        """``is_bare``: nothing else tells the object from an answer, so its members have to."""
        self.name = ""
        self.is_announced = False
        self.is_complete = False
        self.is_ended = False
        self.is_broken = False
        self._name_keys: Final = (calls.name_key, "name")
        self._argument_keys: Final = calls.argument_keys
        self._is_bare: Final = is_bare
        self._place = _BRACE
        self._role = _OTHER
        self._key = ""
        self._scanner = JsonScanner()
        self._out: list[str] = []
        #: The arguments, as long as the call is not announced; None before they begin.
        self._held: list[str] | None = None

    def read(self, text: str, place: int, out: list[str]) -> int:
        """Read ``text`` from ``place`` on, and append arguments that may go out to ``out``.

        Returns the place where reading stopped.
        """
        size = len(text)
        while place < size and not self.is_ended:
            if self._place == _IN_VALUE:
                place = self._read_value(text, place, out)
            elif self._place == _IN_KEY:
                place = self._read_key(text, place)
            else:
                place = skip_blanks(text, place)
                if place < size:
                    place = self._read_structure(text, place, out)
        return place

    def _break(self) -> None:
        self.is_broken = self.is_ended = True

    def _read_structure(self, text: str, place: int, out: list[str]) -> int:
        character, at = text[place], self._place
        if at == _BRACE and character == "{":
            self._place = _FIRST_KEY
        elif at == _COLON and character == ":":
            self._place = _VALUE
        elif at == _NEXT and character == ",":
            self._place = _KEY
        elif at in (_NEXT, _FIRST_KEY) and character == "}":
            self._close(out)
        elif at in (_KEY, _FIRST_KEY) and character in "\"'":
            self._begin(_IN_KEY)
            return place
        elif at == _VALUE:
            self._begin_value(character, out)
            return place
        else:
            self._break()
            return place
        return place + 1

    def _close(self, out: list[str]) -> None:
        """End the object; a name alone is a call without arguments."""
        self.is_ended = True
        if self.name and not self.is_announced and not self._is_bare and self._held is None:
            self._held = ["{}"]
            self.is_complete = True
            self._announce(out)

    def _begin(self, at: int) -> None:
        self._place = at
        self._scanner = JsonScanner(is_lenient=True)
        self._out = []

    def _read_key(self, text: str, place: int) -> int:
        place = self._scanner.read(text, place, self._out)
        if self._scanner.is_done:
            self._key = json.loads("".join(self._out))
            self._place = _COLON
            known = (*self._name_keys, *self._argument_keys, "arguments", "parameters")
            if self._is_bare and self._key not in known and self._key not in _BARE_KEYS:
                self._break()
        elif self._scanner.is_broken:
            self._break()
        return place

    def _begin_value(self, character: str, out: list[str]) -> None:
        self._begin(_IN_VALUE)
        self._role = _OTHER
        if self._key in self._name_keys and not self.name:
            self._role = _NAME
            if character not in "\"'":
                self._break()
        elif self._held is None and (
            self._key in self._argument_keys or self._key in ("arguments", "parameters")
        ):
            self._held = []
            if character == "{":
                self._role = _ARGUMENTS
                self._announce(out)
            elif character in "\"'n":
                self._role = _ARGUMENTS_TEXT
            else:
                self._break()

    def _read_value(self, text: str, place: int, out: list[str]) -> int:
        read: list[str] = []
        place = self._scanner.read(text, place, read)
        if self._role == _ARGUMENTS:
            (out if self.is_announced or self._held is None else self._held).extend(read)
        elif self._role != _OTHER:
            self._out += read
        if self._scanner.is_done:
            self._place = _NEXT
            self._end_value(out)
        elif self._scanner.is_broken:
            self._break()
        return place

    def _end_value(self, out: list[str]) -> None:
        if self._role == _NAME:
            name: str = json.loads("".join(self._out))
            # Half a surrogate pair, as an escape may write it, cannot be sent in UTF-8.
            if not name or _SURROGATE.search(name):
                self._break()
                return
            self.name = name
            self._announce(out)
        elif self._role == _ARGUMENTS:
            self.is_complete = True
        elif self._role == _ARGUMENTS_TEXT:
            compact = _object_in(json.loads("".join(self._out)))
            if compact is None:
                self._break()
                return
            self.is_complete = True
            self._held = [compact]
            self._announce(out)

    def _announce(self, out: list[str]) -> None:
        """Announce the call if name and arguments are there, with the arguments that waited."""
        waits_for_text = self._role == _ARGUMENTS_TEXT and not self.is_complete
        if not self.name or self._held is None or waits_for_text or self.is_announced:
            return
        self.is_announced = True
        out += self._held
        self._held = []


def _object_in(text: object) -> str | None:
    """Return the object in a text without white space, ``{}`` for null; None if it is not one."""
    if text is None:
        return "{}"
    if not isinstance(text, str):
        return None
    scanner, out = JsonScanner(is_lenient=True), list[str]()
    begin = skip_blanks(text, 0)
    if not text.startswith("{", begin):
        return None
    end = scanner.read(text, begin, out)
    if not scanner.is_done or skip_blanks(text, end) != len(text) or _SURROGATE.search(text):
        return None
    return "".join(out)
