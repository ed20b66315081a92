"""`Patterns`: words and expressions, and where they match in text of which more may come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from calculators.language.text_patterns.expression import (
    MAX_WIDTH,
    Expression,
    PatternError,
    read_expression,
)

_Node = dict[str, Any]
#: The key of nodes at which a word ends. Its value is never looked at.
_END: Final = ""


class Words:
    """A tree of words by their letters.

    Attributes:
        fold: returns a text as the other methods take it; of equal length.
    """

    __slots__ = ("_root", "_search", "fold")

    def __init__(self, words: Sequence[str], *, ignore_case: bool) -> None:
        """
        Raises:
            PatternError: a word is empty or too long.
        """
        self.fold: Callable[[str], str] = _folded if ignore_case else str
        self._root: _Node = {}
        for place, word in enumerate(words):
            if not word:
                raise PatternError(f"words[{place}]: the word is empty")
            if len(word) > MAX_WIDTH:
                raise PatternError(
                    f"words[{place}]: {len(word)} characters are above the maximum {MAX_WIDTH}"
                )
            node = self._root
            for letter in self.fold(word):
                node = node.setdefault(letter, {})
            node[_END] = {}
        self._search = re.compile(_beginnings(self._root)).search

    def next(self, text: str, place: int) -> int:
        """Return the first place at which a word may begin; the length of the text if none may."""
        found = self._search(text, place)
        return len(text) if found is None else found.start()

    def longest(self, text: str, place: int) -> tuple[int, bool]:
        """Return the length of the longest word at a place, 0 without one.

        The second value: text that follows could make it longer.
        """
        node = self._root
        longest = 0
        for index in range(place, len(text)):
            below = node.get(text[index])
            if below is None:
                return longest, False
            node = below
            if _END in node:
                longest = index + 1 - place
        return longest, len(node) > (_END in node)


def _beginnings(root: _Node) -> str:
    """Return an expression for the first two letters of words, or the first at the text's end."""
    branches = []
    for letter, below in root.items():
        first = re.escape(letter)
        if _END in below:
            branches.append(first)
        else:
            branches.append(rf"{first}(?:[{''.join(map(re.escape, below))}]|\Z)")
    return "|".join(branches)


def _folded(text: str) -> str:
    """Return a text in which letters that differ only in case are equal."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


class _Folds(dict[int, int]):
    """The folds of characters, one for one: ß stays, and ẞ becomes it."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        for folded in (character.casefold(), character.lower()):
            if len(folded) == 1:
                if folded != character:
                    self[code] = ord(folded)
                return ord(folded)
        return code


_FOLDS: Final = _Folds()


#: Matches, each as its first place and the place behind it.
Spans = Sequence[tuple[int, int]]

_NONE: Final[Spans] = ()


class Scanner(Protocol):
    """Finds matches in text; see `Patterns`."""

    def scan(self, text: str, place: int, *, is_end: bool = False) -> tuple[Spans, int]: ...

    def spans_of(self, text: str) -> Spans: ...


class Patterns:
    """A set of words and expressions.

    From left to right, the match at a place is the longest of all words and expressions, of an
    expression the one that it prefers. The next match begins behind it. What a text's matches are
    does not depend on the pieces in which the text comes.
    """

    __slots__ = ("_expressions", "_words")

    def __init__(
        self, words: Sequence[str], expressions: Sequence[str], *, ignore_case: bool = False
    ) -> None:
        """
        Raises:
            PatternError: a word or an expression cannot be used.
        """
        self._words = Words(words, ignore_case=ignore_case) if words else None
        self._expressions: list[Expression] = [
            read_expression(each, ignore_case=ignore_case, place=f"patterns[{place}]")
            for place, each in enumerate(expressions)
        ]

    def scan(self, text: str, place: int, *, is_end: bool = False) -> tuple[Spans, int]:
        """Return the matches from a place on, and the place from which on more text may decide.

        Args:
            text: with the character before ``place``, unless the text begins there.
            is_end: no more text will come, so the second value is the length of the text.

        Raises:
            TimeoutError: an expression takes too long.
        """
        end = len(text)
        words = self._words
        if words is None:
            folded, word = text, end
        else:
            folded = words.fold(text)
            word = words.next(folded, place)
        first = word
        starts: list[int] = []
        stops: list[int] = []
        for expression in self._expressions:
            start, stop = expression.search(text, place, is_end=is_end)
            starts.append(start)
            stops.append(stop)
            first = min(first, start)
        if first == end:
            return _NONE, end  # like most text
        spans: list[tuple[int, int]] = []
        while True:
            longest, may_grow = 0, False
            if words is not None and word == first:
                longest, may_grow = words.longest(folded, first)
            for start, stop, expression in zip(starts, stops, self._expressions, strict=True):
                if start == first:
                    longest = max(longest, stop - start)
                    may_grow |= stop == end and end - start < expression.needed
            if may_grow and not is_end:
                return spans, first
            place = first + (longest or 1)
            if longest:
                spans.append((first, place))
            if words is not None and word < place:
                word = words.next(folded, place)
            for index, expression in enumerate(self._expressions):
                if starts[index] < place:
                    starts[index], stops[index] = expression.search(text, place, is_end=is_end)
            first = min((word, *starts))
            if first == end:
                return spans, end

    def spans_of(self, text: str) -> Spans:
        """Return the matches of a whole text. Raises TimeoutError as `scan`."""
        return self.scan(text, 0, is_end=True)[0]


@lru_cache(maxsize=256)
def patterns_of(
    words: tuple[str, ...], expressions: tuple[str, ...], ignore_case: bool
) -> Patterns:
    """Return the patterns of a node, which are the same in all runs of its graph.

    Raises:
        PatternError: as `Patterns`.
    """
    return Patterns(words, expressions, ignore_case=ignore_case)
