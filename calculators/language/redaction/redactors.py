"""`TextRedactor` and `ArgumentsRedactor`: mask matches in text, or JSON, that comes in pieces.

A redactor holds back the end of the text that may become a match, and lets go of the rest. The
redacted text is the same however the text was cut into pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from calculators.language.text_patterns import Scanner, Spans

#: Characters that are searched at once, so that no search of a long text takes long.
MOST_AT_ONCE: Final = 1024


class TextRedactor:
    """Redacts one text.

    The pieces that `feed` and `finish` return make the same text, however the input is cut. A
    character is held back as long as text that follows can make it part of a match, or of another
    match.
    """

    __slots__ = ("_buffer", "_mask", "_place", "_scan")

    def __init__(self, patterns: Scanner, mask: str) -> None:
        self._scan = patterns.scan
        self._mask = mask
        #: The last character that was let go, if there is one, and all that is held back.
        self._buffer = ""
        #: The place in it of the first character that is held back: 0 or 1.
        self._place = 0

    @property
    def held(self) -> int:
        """The number of characters that are held back."""
        return len(self._buffer) - self._place

    @property
    def is_new(self) -> bool:
        """True at the beginning of a text."""
        return not self._buffer

    def feed(self, text: str) -> str:
        """Return the text that is certain now.

        Raises:
            TimeoutError: an expression takes too long.
        """
        if len(text) > MOST_AT_ONCE:
            return "".join([self.feed(part) for part in parts_of(text)])
        buffer = self._buffer + text
        place = self._place
        spans, hold = self._scan(buffer, place)
        if hold:
            self._buffer = buffer[hold - 1 :]
            self._place = 1
        else:
            self._buffer = buffer
        return buffer[place:hold] if not spans else masked(buffer, place, hold, spans, self._mask)

    def finish(self) -> str:
        """Return the rest; the text has ended. Then the redactor is as new.

        Raises:
            TimeoutError: an expression takes too long.
        """
        buffer, place = self._buffer, self._place
        self._buffer, self._place = "", 0
        spans, hold = self._scan(buffer, place, is_end=True)
        return masked(buffer, place, hold, spans, self._mask)


def masked(text: str, first: int, last: int, spans: Spans, mask: str) -> str:
    """Return the part of a text between two places, with a mask for each match."""
    return joined(lambda start, stop: text[start:stop], first, last, spans, mask)


def joined(part: Callable[[int, int], str], first: int, last: int, spans: Spans, mask: str) -> str:
    """Join the parts between matches, which ``part`` returns, and a mask for each match."""
    made: list[str] = []
    for start, stop in spans:
        made += (part(first, start), mask)
        first = stop
    made.append(part(first, last))
    return "".join(made)


def redacted(text: str, patterns: Scanner, mask: str) -> str:
    """Return a whole text, redacted.

    Raises:
        TimeoutError: an expression takes too long.
    """
    redactor = TextRedactor(patterns, mask)
    return redactor.feed(text) + redactor.finish()


def parts_of(text: str) -> Iterator[str]:
    """Yield a long text in parts of at most `MOST_AT_ONCE` characters."""
    for start in range(0, len(text), MOST_AT_ONCE):
        yield text[start : start + MOST_AT_ONCE]


#: Characters of a number that are held back until it ends.
MAX_NUMBER: Final = 64

_BETWEEN: Final = re.compile(r"[ \t\r\n{}\[\],:]*")
_NUMBER: Final = re.compile(r"[-+.0-9eE]*")
_PLAIN: Final = re.compile(r'[^"\\]*')
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPE_BEGUN: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: Final = ("true", "false", "null")
#: Behind numbers and literals.
_ENDS: Final = frozenset(' \t\r\n{}[],:"')


class _JsonPlace(Enum):
    """The place in the JSON text."""

    BETWEEN = auto()
    STRING = auto()
    NUMBER = auto()
    #: In a number of more than `MAX_NUMBER` characters.
    LONG_NUMBER = auto()
    LITERAL = auto()
    #: Behind something that is not JSON.
    OTHER = auto()


class ArgumentsRedactor:
    """Redacts the text of one JSON value, such as the arguments of a call.

    Strings are read as clients read them: ``p\\u0061ss`` is ``pass``. Each string is a text of its
    own, keys too; what does not match keeps its spelling. A number with a match becomes a string. A
    number of more than `MAX_NUMBER` characters without a match in the first ones stays a number, in
    which later matches become 0. From where the text stops being JSON, it is redacted as plain
    text.
    """

    def __init__(self, patterns: Scanner, mask: str) -> None:
        self._patterns = patterns
        self._mask = json.dumps(mask, ensure_ascii=False)[1:-1]
        self._state = _JsonPlace.BETWEEN
        #: A number, literal or escape of which more may come. It is read again with the next text.
        self._token = ""
        #: The number of characters of a literal that were let go.
        self._shown = 0
        self._string = _SpelledText(patterns, self._mask)
        self._number = TextRedactor(patterns, "0")
        #: The text after the digits of `_JsonPlace.LONG_NUMBER`.
        self._closing = ""
        self._other = TextRedactor(patterns, mask)

    @property
    def held(self) -> int:
        """The number of characters of the JSON text that are held back."""
        tokens = len(self._token) - self._shown
        return tokens + self._string.held + self._number.held + self._other.held

    def feed(self, text: str) -> str:
        """Return the JSON text that is certain now.

        Raises:
            TimeoutError: an expression takes too long.
        """
        if len(text) > MOST_AT_ONCE:
            return "".join([self.feed(part) for part in parts_of(text)])
        made: list[str] = []
        text, self._token, place = self._token + text, "", 0
        while place < len(text):
            match self._state:
                case _JsonPlace.BETWEEN:
                    place = self._read_between(text, place, made)
                case _JsonPlace.STRING:
                    place = self._read_string(text, place, made)
                case _JsonPlace.NUMBER:
                    place = self._read_number(text, place, made)
                case _JsonPlace.LONG_NUMBER:
                    place = self._read_long_number(text, place, made)
                case _JsonPlace.LITERAL:
                    place = self._read_literal(text, place, made)
                case _JsonPlace.OTHER:
                    made.append(self._other.feed(text[place:]))
                    place = len(text)
        return "".join(made)

    def finish(self) -> str:
        """Return the rest; the text has ended, complete or not. Then the redactor is as new.

        Raises:
            TimeoutError: an expression takes too long.
        """
        made: list[str] = []
        match self._state:
            case _JsonPlace.STRING:
                made = [self._string.finish(), self._token]
            case _JsonPlace.NUMBER:
                self._end_number(self._token, made)
            case _JsonPlace.LONG_NUMBER:
                made = [self._number.finish(), self._closing]
            case _JsonPlace.LITERAL:
                made.append(self._token[self._shown :])
            case _JsonPlace.OTHER:
                made.append(self._other.finish())
            case _JsonPlace.BETWEEN:
                pass
        self._token, self._shown, self._state = "", 0, _JsonPlace.BETWEEN
        return "".join(made)

    # Each reads one part from a place on, and returns the place after what it has read.

    def _read_between(self, text: str, place: int, made: list[str]) -> int:
        start, place = place, _end(_BETWEEN, text, place)
        match text[place : place + 1]:
            case "":
                pass
            case '"':
                self._state = _JsonPlace.STRING
                place += 1
            case "t" | "f" | "n":
                self._state = _JsonPlace.LITERAL
            case first if first in "-0123456789":
                self._state = _JsonPlace.NUMBER
            case _:
                self._state = _JsonPlace.OTHER
        made.append(text[start:place])
        return place

    def _read_string(self, text: str, place: int, made: list[str]) -> int:
        stop = _end(_PLAIN, text, place)
        if stop > place:
            made.append(self._string.feed(text[place:stop]))
        elif text[place] == '"':
            made += (self._string.finish(), '"')
            self._state = _JsonPlace.BETWEEN
            stop += 1
        else:
            escape = _read_escape(text, place)
            if escape is None:
                self._token = text[place:]
                return len(text)
            character, stop = escape
            made.append(self._string.feed(character, [text[place:stop]]))
        return stop

    def _read_number(self, text: str, place: int, made: list[str]) -> int:
        stop = _end(_NUMBER, text, place)
        if stop - place > MAX_NUMBER:
            has_match = bool(self._patterns.scan(text[place : place + MAX_NUMBER], 0)[0])
            self._number = TextRedactor(self._patterns, self._mask if has_match else "0")
            self._closing = '"' if has_match else ""
            made.append(self._closing)
            self._state = _JsonPlace.LONG_NUMBER
            return place
        if stop == len(text):
            self._token = text[place:]
        elif text[stop] in _ENDS:
            self._end_number(text[place:stop], made)
            self._state = _JsonPlace.BETWEEN
        else:
            self._state = _JsonPlace.OTHER
            return place
        return stop

    def _end_number(self, number: str, made: list[str]) -> None:
        spans = self._patterns.spans_of(number)
        if spans:
            made.append(f'"{masked(number, 0, len(number), spans, self._mask)}"')
        else:
            made.append(number)

    def _read_long_number(self, text: str, place: int, made: list[str]) -> int:
        stop = _end(_NUMBER, text, place)
        made.append(self._number.feed(text[place:stop]))
        if stop < len(text):
            made += (self._number.finish(), self._closing)
            self._state = _JsonPlace.BETWEEN
        return stop

    def _read_literal(self, text: str, place: int, made: list[str]) -> int:
        literal = next((each for each in _LITERALS if text.startswith(each, place)), None)
        word = literal or text[place : place + 5]
        stop = place + len(word)
        if literal is not None or any(each.startswith(word) for each in _LITERALS):
            spans, hold = self._patterns.scan(word, 0)
            if literal is not None and (hold == len(word) or text[stop : stop + 1] in _ENDS):
                made.append(word[self._shown :])
                self._shown, self._state = 0, _JsonPlace.BETWEEN
                return stop
            if stop == len(text):
                shown = spans[0][0] if spans else hold
                made.append(word[self._shown : shown])
                self._shown, self._token = shown, word
                return stop
        self._state = _JsonPlace.OTHER
        # The part of a literal that was let go belonged to no match.
        made.append(self._other.feed(text[place:])[self._shown :])
        self._shown = 0
        return len(text)


class _SpelledText:
    """A `TextRedactor` for text whose characters may be written in several ways.

    Text that is not masked keeps its spelling.
    """

    __slots__ = ("_buffer", "_mask", "_patterns", "_place", "_spellings")

    def __init__(self, patterns: Scanner, mask: str) -> None:
        self._patterns = patterns
        self._mask = mask
        self._buffer = ""
        self._place = 0
        #: Spellings of the characters that are held back; None if each is spelled as itself.
        self._spellings: list[str] | None = None

    @property
    def held(self) -> int:
        """The number of characters that are held back, as they are spelled."""
        if self._spellings is None:
            return len(self._buffer) - self._place
        return sum(map(len, self._spellings))

    def feed(self, text: str, spellings: Sequence[str] | None = None) -> str:
        """Return the spelling that is certain now.

        ``spellings``: of each character; None if it is itself.
        """
        if spellings is not None or self._spellings is not None:
            held = self._spellings or list(self._buffer[self._place :])
            self._spellings = [*held, *(spellings or text)]
        self._buffer += text
        spans, hold = self._patterns.scan(self._buffer, self._place)
        made = self._spelled(hold, spans)
        if self._spellings is not None:
            self._spellings = self._spellings[hold - self._place :] or None
        if hold:
            self._buffer = self._buffer[hold - 1 :]
            self._place = 1
        return made

    def finish(self) -> str:
        """Return the rest; the text has ended. Then the redactor is as new."""
        spans, hold = self._patterns.scan(self._buffer, self._place, is_end=True)
        made = self._spelled(hold, spans)
        self._buffer, self._place, self._spellings = "", 0, None
        return made

    def _spelled(self, last: int, spans: Spans) -> str:
        buffer, first, spellings = self._buffer, self._place, self._spellings
        if spellings is None:
            return masked(buffer, first, last, spans, self._mask)
        return joined(
            lambda start, stop: "".join(spellings[start - first : stop - first]),
            first,
            last,
            spans,
            self._mask,
        )


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the place after the match of a pattern that always matches."""
    found = pattern.match(text, place)
    assert found is not None
    return found.end()


def _read_escape(text: str, place: int) -> tuple[str, int] | None:
    """Return the character of an escape and the place after it; None if more is needed."""
    found = _ESCAPE.match(text, place)
    if found is None or _ESCAPE_BEGUN.match(text, place):
        return None
    stop = found.end()
    if found[1] is None:
        return _ESCAPED.get(found[2], found[2]), stop
    code = int(found[1], 16)
    # A character beyond 16 bits is two escapes, and the second may not be there yet.
    if 0xD800 <= code < 0xDC00:
        if stop == len(text) or _ESCAPE_BEGUN.match(text, stop):
            return None
        second = _ESCAPE.match(text, stop)
        low = int(second[1], 16) if second is not None and second[1] is not None else 0
        if second is not None and 0xDC00 <= low < 0xE000:
            return chr(0x10000 + (code - 0xD800 << 10) + low - 0xDC00), second.end()
    return chr(code), stop
