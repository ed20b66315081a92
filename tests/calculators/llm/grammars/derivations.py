"""Interpreter of our grammars: is a text one of theirs, and random texts of them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r'\(=|"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|r\d+|\||\)')
_LETTER: Final = re.compile(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|(.)", re.DOTALL)

_DISPATCH: Final = re.compile(
    r"TagDispatch\((?P<pairs>.*)stop_eos=\w+, stop_str=\((?P<ends>.*)\), "
    r"loop_after_dispatch=(?P<loops>\w+), excludes=\((?P<excludes>.*)\)\)"
)
_PAIR: Final = re.compile(r'\("((?:[^"\\]|\\.)*)", (r\d+)\)')
_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class AnyText:
    """The library's rule of any text: tags with rules in it, and texts that end it."""

    pairs: list[tuple[str, str]]
    ends: list[str]
    excludes: list[str]
    loops: bool

    @classmethod
    def read(cls, body: str) -> AnyText:
        found = _DISPATCH.fullmatch(body)
        assert found is not None, body
        pairs = [(_text(text), rule) for text, rule in _PAIR.findall(found["pairs"])]
        ends, excludes = (
            [_text(text) for text in _TEXT.findall(found[name])] for name in ("ends", "excludes")
        )
        return cls(pairs, ends, excludes, found["loops"] == "true")

    def ends_in(self, text: str, at: int) -> frozenset[int]:
        """Return the place after the end of such a text that begins at a place, if there is one."""
        assert not self.pairs, "what follows a tag is not looked for"
        ends = [(place, mark) for mark in self.ends if (place := text.find(mark, at)) >= 0]
        if not ends or any(each in text[at : min(ends)[0]] for each in self.excludes):
            return frozenset()
        place, mark = min(ends)
        return frozenset({place + len(mark)})

    def random_parts(self, chance: random.Random, words: Sequence[str]) -> list[_Part]:
        """Return a random text of letters and words, and what ends it or follows."""
        marks = [*(text for text, _ in self.pairs), *self.ends, *self.excludes]
        made = ""
        for _ in range(chance.choice((0, 1, 2, 4, 8))):
            more = made + chance.choice((*words, *"ab 1\n\"'<>\\{}[](),:é "))
            if not any(mark in more for mark in marks):
                made = more
        ways: list[tuple[str, str | None]] = [*self.pairs, *((end, None) for end in self.ends)]
        text, rule = chance.choice(ways or [("", None)])
        while text and (made + text).find(text) < len(made):
            made = made[:-1]  # its end and the beginning of the mark are the mark
        parts: list[_Part] = [(made + text,)]
        return parts if rule is None else [*parts, rule]


def _text(written: str) -> str:
    return "".join(map(chr, _codes(written)))


#: A rule's name, a text, ranges of letters, or any text.
_Part = str | tuple[str] | list[tuple[int, int]] | AnyText


def _codes(text: str) -> list[int]:
    return [
        int(short or long, 16) if short or long else ord(letter)
        for short, long, letter in _LETTER.findall(text)
    ]


def _ranges(inside: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    letters = _LETTER.findall(inside)
    codes = _codes(inside)
    at = 0
    while at < len(codes):
        if at + 2 < len(codes) and letters[at + 1][2] == "-":
            found.append((codes[at], codes[at + 2]))
            at += 3
        else:
            found.append((codes[at], codes[at]))
            at += 1
    return found


class Derivations:
    """The texts of a grammar."""

    def __init__(self, grammar: str) -> None:
        self._rules: dict[str, list[list[_Part]]] = {}
        for line in grammar.splitlines():
            name, _, body = line.partition(" ::= ")
            if body.startswith("TagDispatch("):
                self._rules[name] = [[AnyText.read(body)]]
                continue
            ways: list[list[_Part]] = [[]]
            is_followed = False
            for token in _TOKEN.findall(body):
                if token == "|":
                    ways.append([])
                    is_followed = False
                elif token == "(=" or is_followed:
                    is_followed = True  # declared followers are no part of the text
                elif token[0] == '"':
                    ways[-1].append(("".join(map(chr, _codes(token[1:-1]))),))
                elif token[0] == "[":
                    ways[-1].append(_ranges(token[1:-1]))
                elif token != ")":
                    ways[-1].append(token)
            self._rules[name] = ways
        self._heights = self._find_heights()

    def matches(self, text: str) -> bool:
        """Return True if the text is one of the grammar's."""
        known: dict[tuple[str, int], frozenset[int]] = {}

        def ends(name: str, at: int) -> frozenset[int]:
            key = (name, at)
            if key not in known:
                known[key] = frozenset()
                found: set[int] = set()
                for way in self._rules[name]:
                    places = {at}
                    for part in way:
                        places = {end for place in places for end in after(part, place)}
                    found |= places
                known[key] = frozenset(found)
            return known[key]

        def after(part: _Part, at: int) -> frozenset[int]:
            if isinstance(part, str):
                return ends(part, at)
            if isinstance(part, AnyText):
                return part.ends_in(text, at)
            if isinstance(part, tuple):
                return frozenset({at + len(part[0])} if text.startswith(part[0], at) else ())
            fits = at < len(text) and any(low <= ord(text[at]) <= high for low, high in part)
            return frozenset({at + 1} if fits else ())

        return len(text) in ends("root", 0)

    def random_text(
        self, chance: random.Random, steps: int = 250, words: Sequence[str] = ()
    ) -> str:
        """Return a random text; after so many rules, by the shortest way to the end.

        ``words``: texts that any text may have.
        """
        made: list[str] = []
        waiting: list[_Part] = ["root"]
        while waiting:
            part = waiting.pop()
            if isinstance(part, tuple):
                made.append(part[0])
            elif isinstance(part, AnyText):
                waiting += reversed(part.random_parts(chance, words))
            elif isinstance(part, list):
                plain = [(low, min(high, 0x7E)) for low, high in part if low <= 0x7E]
                low, high = chance.choice(plain if plain and chance.random() < 0.7 else part)
                made.append(chr(chance.randint(low, high)))
            else:
                steps -= 1
                ways = self._rules[part]
                if steps < 0:
                    ways = [min(ways, key=self._height)]
                waiting += reversed(chance.choice(ways))
        return "".join(made)

    def _height(self, way: list[_Part]) -> float:
        names = (part for part in way if isinstance(part, str))
        return max((self._heights[name] for name in names), default=0)

    def _find_heights(self) -> dict[str, float]:
        self._heights = dict.fromkeys(self._rules, float("inf"))
        is_changed = True
        while is_changed:
            is_changed = False
            for name, ways in self._rules.items():
                height = 1 + min(map(self._height, ways))
                if height < self._heights[name]:
                    self._heights[name] = height
                    is_changed = True
        return self._heights
