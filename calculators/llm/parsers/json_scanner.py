"""`JsonScanner`: one JSON value, read as it grows and passed on compactly.

`compact_json` does the same for a complete text, and `json_or_string` for one that may be no JSON.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

import msgspec

#: The states: in a string or another scalar, then what may come next, then the ends. Plain numbers,
#: because members of an enumeration cost as much as all the rest.
_STRING: Final = 0
_ESCAPE: Final = 1
_HEX: Final = 2
_NUMBER: Final = 3
_LITERAL: Final = 4
_VALUE: Final = 5
_FIRST_ITEM: Final = 6
_FIRST_KEY: Final = 7
_KEY: Final = 8
_COLON: Final = 9
_NEXT: Final = 10
_DONE: Final = 11
_BROKEN: Final = 12
BLANKS: Final = " \t\n\r"
_BLANK_RUN: Final = re.compile(r"[ \t\n\r]*")
_PLAIN_RUN: Final = re.compile(r'[^"\\\x00-\x1f]*')
_LITERALS: Final = {"t": "rue", "f": "alse", "n": "ull"}
#: Words that Python writes: the rest of each, and what JSON has instead.
_PYTHON_LITERALS: Final = {"T": ("rue", "true"), "F": ("alse", "false"), "N": ("one", "null")}
_PLAIN_QUOTED_RUN: Final = re.compile(r"[^'\"\\\x00-\x1f]*")
_DIGITS: Final = "0123456789"


def _row(**next_states: int) -> dict[str, int]:
    signs = {"minus": "-", "zero": "0", "one_to_nine": "123456789", "digit": _DIGITS}
    signs |= {"point": ".", "exponent": "eE", "sign": "+-"}
    return {character: state for name, state in next_states.items() for character in signs[name]}


#: By state of a number what may follow; a number may end in the states of `_NUMBER_ENDS`.
_NUMBER_STEPS: Final = (
    _row(minus=1, zero=2, one_to_nine=3),
    _row(zero=2, one_to_nine=3),
    _row(point=4, exponent=6),
    _row(digit=3, point=4, exponent=6),
    _row(digit=5),
    _row(digit=5, exponent=6),
    _row(sign=7, digit=8),
    _row(digit=8),
    _row(digit=8),
)
_NUMBER_ENDS: Final = frozenset((2, 3, 5, 8))


def skip_blanks(text: str, place: int) -> int:
    """Return the place of the first character from ``place`` on that is not JSON white space."""
    if place < len(text) and text[place] not in BLANKS:
        return place
    run = _BLANK_RUN.match(text, place)
    assert run is not None, "it matches nothing at all, too"
    return run.end()


class JsonScanner:
    """Reads one JSON value by RFC 8259, in any number of pieces and to any depth.

    The output has no white space outside of strings. Strings stay as they are written, except that
    control characters, which JSON forbids and models write, are escaped. So the output of a
    complete value is valid JSON. Output is not delayed; where the text is not JSON the scanner
    stops.
    """

    __slots__ = (
        "_is_lenient",
        "_is_said",
        "_left",
        "_number",
        "_quote",
        "_stack",
        "_state",
        "_string_is_key",
    )

    def __init__(self, *, is_lenient: bool = False) -> None:
        """``is_lenient``: read strings in single quotes and words as Python writes them, too."""
        self._is_lenient = is_lenient
        self._quote = '"'
        #: The word that is being read has been written, as JSON has another.
        self._is_said = False
        self._state = _VALUE
        self._stack: list[str] = []
        self._string_is_key = False
        self._left = ""
        self._number = 0

    @property
    def is_done(self) -> bool:
        """True if the value is complete; a number only when a character follows that ends it."""
        return self._state == _DONE

    @property
    def is_broken(self) -> bool:
        """True if `read` stopped because the text there is not JSON."""
        return self._state == _BROKEN

    def read(self, text: str, place: int, out: list[str]) -> int:
        """Read ``text`` from ``place`` on, and append the output to ``out``.

        Returns the place where reading stopped: the end of the text, the end of the value, or the
        first character that is not JSON.
        """
        size = len(text)
        while place < size and self._state < _DONE:
            if self._state == _STRING:
                place = self._read_string(text, place, out)
            elif self._state <= _LITERAL:
                place = self._read_scalar(text, place, out)
            elif text[place] in BLANKS:
                place = skip_blanks(text, place)
            else:
                place = self._read_structure(text, place, out)
        return place

    def _read_string(self, text: str, place: int, out: list[str]) -> int:
        run = (_PLAIN_RUN if self._quote == '"' else _PLAIN_QUOTED_RUN).match(text, place)
        assert run is not None, "it matches nothing at all, too"
        end = run.end()
        if end == len(text):
            out.append(text[place:])
            return end
        character = text[end]
        if character == self._quote:
            out.append(text[place:end] + '"')
            if self._string_is_key:
                self._state = _COLON
            else:
                self._end_value()
        elif character == "\\":
            out.append(text[place : end if self._is_lenient else end + 1])
            self._state = _ESCAPE
        else:
            out += text[place:end], '\\"' if character == '"' else _escaped(character)
        return end + 1

    def _read_scalar(self, text: str, place: int, out: list[str]) -> int:
        """Continue an escape sequence, a number, or one of true, false and null."""
        if self._state == _NUMBER:
            return self._read_number(text, place, out)
        character = text[place]
        if self._state == _ESCAPE:
            if self._is_lenient and character != "'":
                out.append("\\")
            if character not in ('"\\/bfnrtu' + "'" if self._is_lenient else '"\\/bfnrtu'):
                return self._break(place)
            self._left = "xxxx" if character == "u" else ""
            self._state = _HEX if self._left else _STRING
        elif self._state == _HEX:
            if character not in "0123456789abcdefABCDEF":
                return self._break(place)
            self._left = self._left[1:]
            if not self._left:
                self._state = _STRING
        else:
            if character != self._left[0]:
                return self._break(place)
            self._left = self._left[1:]
            if not self._left:
                self._end_value()
            if self._is_said:
                return place + 1
        out.append(character)
        return place + 1

    def _read_number(self, text: str, place: int, out: list[str]) -> int:
        begin, size, number = place, len(text), self._number
        while place < size:
            following = _NUMBER_STEPS[number].get(text[place])
            if following is None:
                break
            number = following
            place += 1
        self._number = number
        if place > begin:
            out.append(text[begin:place])
        if place < size:
            if number not in _NUMBER_ENDS:
                return self._break(place)
            self._end_value()
        return place

    def _read_structure(self, text: str, place: int, out: list[str]) -> int:
        character, state = text[place], self._state
        if state == _NEXT:
            opened = self._stack[-1]
            if character == ",":
                self._state = _KEY if opened == "{" else _VALUE
            elif character == ("}" if opened == "{" else "]"):
                self._close()
            else:
                return self._break(place)
        elif state == _COLON:
            if character != ":":
                return self._break(place)
            self._state = _VALUE
        elif character == '"' or (character == "'" and self._is_lenient):
            self._string_is_key = state in (_KEY, _FIRST_KEY)
            self._state = _STRING
            self._quote = character
            character = '"'
        elif state in (_KEY, _FIRST_KEY):
            if character != "}" or state == _KEY:
                return self._break(place)
            self._close()
        elif character in "{[":
            self._stack.append(character)
            self._state = _FIRST_KEY if character == "{" else _FIRST_ITEM
        elif character == "]" and state == _FIRST_ITEM:
            self._close()
        elif character in _LITERALS:
            self._left = _LITERALS[character]
            self._state = _LITERAL
            self._is_said = False
        elif character in _PYTHON_LITERALS and self._is_lenient:
            self._left, character = _PYTHON_LITERALS[character]
            self._state = _LITERAL
            self._is_said = True
        elif character == "-" or character in _DIGITS:
            self._number = 0
            self._state = _NUMBER
            return place
        else:
            return self._break(place)
        out.append(character)
        return place + 1

    def _close(self) -> None:
        self._stack.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._state = _NEXT if self._stack else _DONE

    def _break(self, place: int) -> int:
        self._state = _BROKEN
        return place


def _escaped(character: str) -> str:
    """Return the escape sequence of a control character."""
    short = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return short.get(character) or f"\\u{ord(character):04x}"


def compact_json(text: str) -> str | None:
    """Return the same JSON without white space between its parts; None if ``text`` is not JSON.

    Numbers and strings stay as they are written, except that control characters in strings, which
    JSON forbids and models write, are escaped.
    """
    try:
        compact = msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return _compact_any_depth(text)
    return compact.decode("utf-8", "surrogatepass")


def _compact_any_depth(text: str) -> str | None:
    """Do as `compact_json`, slower, also for control characters and deeply nested values."""
    scanner = JsonScanner()
    parts: list[str] = []
    # A number is complete only when something else follows.
    text += " "
    end = scanner.read(text, 0, parts)
    return "".join(parts) if scanner.is_done and not text[end:].strip() else None


def json_or_string(text: str) -> str:
    """Return ``text`` as compact JSON if it is JSON, else as a JSON string."""
    compact = compact_json(text)
    return encode_basestring(text) if compact is None else compact
