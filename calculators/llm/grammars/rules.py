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

#: Characters of all rules of one grammar.
MAX_SIZE: Final = 1_000_000


class GrammarTooLarge(ValueError):
    """The rules exceed `MAX_SIZE`."""


class UnboundedGrammarError(ValueError):
    """No finite text fits the rules."""


class Rules:
    """The rules of one grammar, by name; equal bodies are one rule."""

    def __init__(self) -> None:
        self._bodies: list[str] = []
        self._numbers: dict[str, int] = {}
        self._expressions: dict[Node, str] = {}
        self._size = 0

    def reserve(self) -> str:
        """Return a name whose rule is defined later, for rules that refer to themselves."""
        self._bodies.append("")
        return f"r{len(self._bodies) - 1}"

    def define(self, name: str, body: str) -> None:
        """Define the rule of a reserved name.

        Raises:
            GrammarTooLarge: there are too many rules.
        """
        self._size += len(body) + len(name)
        if self._size > MAX_SIZE:
            raise GrammarTooLarge("it becomes too large a grammar")
        self._bodies[int(name[1:])] = body

    def add(self, body: str) -> str:
        """Add a rule; return its name."""
        number = self._numbers.get(body)
        if number is not None:
            return f"r{number}"
        name = self.reserve()
        self.define(name, body)
        self._numbers[body] = int(name[1:])
        return name

    def add_expression(self, node: Node) -> str:
        """Add the rules of an expression; return the name of the first.

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
        # The library inlines a rule only if there is no reference in it.
        nothing = self.add('""')
        stop = self.add(f"{_word(counted.stop)} {nothing}")
        ways = " | ".join(f"{_word(way)} {nothing}" for way in counted.ways)
        letter, following = self.add(ways), stop
        for _ in range(NEAR):
            following = self.add(f"{letter} {following} | {stop}")
        # The lookahead must stand at the end of its rule, and `_useful` leaves it there: the last
        # way is the one that needs it, and is completed after the others.
        far = self.add(f"{self.add(f'{ways} (= {following})')} {nothing}")
        name = self.add_expression(counted.near)
        end = self.add(f"{_word(counted.end)} {nothing}") if counted.end else '""'
        for left in range(1, counted.far + 1):
            may_end = counted.far - left >= counted.low
            name = self.add(f"{far} {name} | {end}" if may_end else f"{far} {name}")
        return self.add(f"{_word(counted.begin)} {name}")

    def text(self, first: str) -> str:
        """Return the grammar that begins with this rule, without alternatives that cannot end.

        Raises:
            UnboundedGrammarError: no finite text fits the rule.
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
        """Return the rules with a finite text, with only the alternatives that have one."""
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
    """Split the body of a rule into its alternatives, with the rules that each needs."""
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
    """Write a text as a literal."""
    return '"' + "".join(map(_in_text, text)) + '"'


def _word(word: Word) -> str:
    return " ".join(map(letters, word))


def letters(ranges: Ranges) -> str:
    """Write ranges as a class of letters."""
    shown = (
        _in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}"
        for low, high in _by_bytes(ranges)
    )
    return "[" + "".join(shown) + "]"


def _by_bytes(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Split ranges so that each part is one range at each of its bytes in UTF-8.

    Source: the construction of RE2, ``re2/compile.cc``. xgrammar 0.1 misreads other ranges.
    Surrogates are left out: they have no UTF-8.
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
    """Return the first code point of the second part; None: the range need not be split."""
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
