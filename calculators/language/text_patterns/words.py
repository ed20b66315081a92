"""`Words`: many words, found in time that does not depend on their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from calculators.language.text_patterns.expression import MAX_WIDTH, PatternError

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
