"""`Rules`: a grammar in the notation of the engine's library (EBNF), rule by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from calculators.llm.grammars.automaton import make_automaton
from calculators.llm.grammars.bounded_repeat import (
    NEAR,
    BoundedRepeat,
    Word,
    counted_letters,
)
from calculators.llm.grammars.regular_expression import Node, Ranges

#: Of all rules of one grammar, in characters.
MAX_SIZE: Final = 1_000_000


class GrammarTooLarge(ValueError):
    """More rules than `MAX_SIZE` allows."""


class UnboundedGrammarError(ValueError):
    """No finite text fits the rules."""


class Rules:
    """Rules by name; the same text is one rule."""

    def __init__(self) -> None:
        self._bodies: list[str] = []
        self._numbers: dict[str, int] = {}
        self._expressions: dict[Node, str] = {}
        self._size = 0

    def reserve(self) -> str:
        """A name whose rule comes later: for what refers to itself."""
        self._bodies.append("")
        return f"r{len(self._bodies) - 1}"

    def define(self, name: str, body: str) -> None:
        """The rule of a reserved name."""
        self._size += len(body) + len(name)
        if self._size > MAX_SIZE:
            raise GrammarTooLarge("it becomes too large a grammar")
        self._bodies[int(name[1:])] = body

    def add(self, body: str) -> str:
        """A rule; its name."""
        number = self._numbers.get(body)
        if number is not None:
            return f"r{number}"
        name = self.reserve()
        self.define(name, body)
        self._numbers[body] = int(name[1:])
        return name

    def add_expression(self, node: Node) -> str:
        """The rules of an expression; the name of the first.

        Raises:
            TooComplex: see `make_automaton`.
        """
        known = self._expressions.get(node)
        if known is not None:
            return known
        counted = counted_letters(node)
        name = self._add_automaton(node) if counted is None else self._add_counted(counted)
        self._expressions[node] = name
        return name

    def _add_automaton(self, node: Node) -> str:
        automaton = make_automaton(node)
        names = [self.reserve() for _ in automaton.moves]
        for state, moves in enumerate(automaton.moves):
            branches = ['""'] if state in automaton.final else []
            branches += [f"{letters(ranges)} {names[goal]}" for ranges, goal in moves]
            self.define(names[state], " | ".join(branches))
        return names[0]

    def _add_counted(self, counted: BoundedRepeat) -> str:
        # With a reference in it a rule is not put in place of those to it.
        nothing = self.add('""')
        stop = self.add(f"{_word(counted.stop)} {nothing}")
        ways = " | ".join(f"{_word(way)} {nothing}" for way in counted.ways)
        letter, following = self.add(ways), stop
        for _ in range(NEAR):
            following = self.add(f"{letter} {following} | {stop}")
        # What follows stands at the end of a rule, and there `_useful` leaves it: the last way
        # needs it, and comes to an end later than the others.
        far = self.add(f"{self.add(f'{ways} (= {following})')} {nothing}")
        name = self.add_expression(counted.near)
        end = self.add(f"{_word(counted.end)} {nothing}") if counted.end else '""'
        for left in range(1, counted.far + 1):
            may_end = counted.far - left >= counted.low
            name = self.add(f"{far} {name} | {end}" if may_end else f"{far} {name}")
        return self.add(f"{_word(counted.begin)} {name}")

    def text(self, first: str) -> str:
        """The grammar that begins with this rule, without what could never come to an end.

        Raises:
            Endless: nothing is left then.
        """
        useful = self._useful()
        if int(first[1:]) not in useful:
            raise UnboundedGrammarError(
                "no finite answer fits it: it refers to itself without a way out"
            )
        lines = [f"root ::= {first}"]
        lines += [f"r{number} ::= {body}" for number, body in useful.items()]
        return "\n".join(lines) + "\n"

    def _useful(self) -> dict[int, str]:
        """The rules that have a finite text, with those of their alternatives that have one."""
        waiting: dict[int, list[tuple[int, str]]] = {}
        missing: dict[tuple[int, str], int] = {}
        useful: dict[int, list[str]] = {}
        found: list[int] = []

        def completed(number: int, alternative: str) -> None:
            if number not in useful:
                useful[number] = []
                found.append(number)
            useful[number].append(alternative)

        for number, body in enumerate(self._bodies):
            for alternative, needed in _alternatives(body).items():
                for name in needed:
                    waiting.setdefault(name, []).append((number, alternative))
                if needed:
                    missing[number, alternative] = len(needed)
                else:
                    completed(number, alternative)
        while found:
            for key in waiting.get(found.pop(), ()):
                missing[key] -= 1
                if not missing[key]:
                    completed(*key)
        return {number: " | ".join(useful[number]) for number in sorted(useful)}


_TOKEN: Final = re.compile(r'\(=|"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|r(\d+)|[^\s]')


def _alternatives(body: str) -> dict[str, set[int]]:
    """What stands between the bars of a rule that we wrote, with the rules that it needs."""
    found: dict[str, set[int]] = {}
    words: list[str] = []
    needed: set[int] = set()
    for token in [*_TOKEN.finditer(body), None]:
        if token is None or token[0] == "|":
            found[" ".join(words)] = needed
            words, needed = [], set()
        else:
            words.append(token[0])
            if token[1] is not None:
                needed.add(int(token[1]))
    return found


def literal(text: str) -> str:
    """Exactly this text."""
    return '"' + "".join(map(_in_text, text)) + '"'


def _word(word: Word) -> str:
    return " ".join(map(letters, word))


def letters(ranges: Ranges) -> str:
    """One letter of these."""
    shown = (
        _in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}"
        for low, high in _by_bytes(ranges)
    )
    return "[" + "".join(shown) + "]"


def _by_bytes(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """The same in parts that are one range at each of their bytes in UTF-8.

    Source: the construction of RE2, ``re2/compile.cc``. xgrammar 0.1 takes other ranges for more
    or less than they are. Surrogates are left out: they have no UTF-8.
    """
    waiting = [part for low, high in reversed(ranges) for part in ((max(low, 0xE000), high),
               (low, min(high, 0xD7FF)))]  # fmt: skip
    while waiting:
        low, high = waiting.pop()
        if low > high:
            continue
        middle = _split_at(low, high)
        if middle is None:
            yield low, high
        else:
            waiting += [(middle, high), (low, middle - 1)]


def _split_at(low: int, high: int) -> int | None:
    """Where the second part begins."""
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            return last + 1
    if high > 0x7F:
        for tail in (0x3F, 0xFFF, 0x3FFFF):
            if low & ~tail != high & ~tail:
                if low & tail:
                    return (low | tail) + 1
                if high & tail != tail:
                    return high & ~tail
    return None


def _in_text(letter: str) -> str:
    code = ord(letter)
    if letter in '"\\' or code < 0x20 or code == 0x7F:
        return _escaped(code)
    return letter


def _in_class(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else _escaped(code)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
