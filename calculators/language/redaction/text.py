"""`TextRedactor`: masks matches in text that comes in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from calculators.language.text_patterns.patterns import Scanner, Spans

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
