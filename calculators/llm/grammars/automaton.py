"""`Automaton`: an expression as a deterministic automaton.

The engine's library is an Earley parser, whose time grows with the cube of the text's length for
ambiguous expressions: 200 letters of ``(a*a*)*b`` took it 30 s. In a deterministic automaton every
letter costs the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from calculators.llm.grammars.regular_expression import (
    CharClass,
    Choice,
    Node,
    Ranges,
    Repeat,
    Sequence,
    ranges_of,
)

#: States of the nondeterministic automaton, and of the deterministic one. The first bounds an
#: expression with its counts written out, the second one like ``(a|b)*a(a|b){20}``, which has to
#: remember 20 letters.
MAX_GUESSING: Final = 20_000
MAX_STATES: Final = 1_500
#: Work of the subset construction: members of the sets of states, in all.
MAX_WORK: Final = 400_000


class TooComplex(ValueError):
    """The expression needs too many states."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """A deterministic automaton. State 0 is the first.

    Attributes:
        moves: for each state its transitions; no letter is in two of them.
        final: the states in which the text may end.
    """

    moves: tuple[tuple[tuple[Ranges, int], ...], ...]
    final: frozenset[int]


def make_automaton(node: Node) -> Automaton:
    """Make the automaton of an expression; each of its states can reach an end.

    Raises:
        TooComplex: it exceeds `MAX_GUESSING`, `MAX_STATES` or `MAX_WORK`.
    """
    return _Sets(_Guessing(node)).automaton()


class _Guessing:
    """A nondeterministic automaton by Thompson's construction; first state 0, last state 1."""

    def __init__(self, node: Node) -> None:
        self.silent: list[list[int]] = [[], []]
        self.letters: list[list[tuple[Ranges, int]]] = [[], []]
        self._add(node, 0, 1)

    def _state(self) -> int:
        if len(self.silent) >= MAX_GUESSING:
            raise TooComplex("the expression is too large when its counts are written out")
        self.silent.append([])
        self.letters.append([])
        return len(self.silent) - 1

    def _add(self, node: Node, start: int, end: int) -> None:
        match node:
            case CharClass(ranges):
                self.letters[start].append((ranges, end))
            case Sequence(items):
                for item in items[:-1]:
                    middle = self._state()
                    self._add(item, start, middle)
                    start = middle
                if items:
                    self._add(items[-1], start, end)
                else:
                    self.silent[start].append(end)
            case Choice(items):
                for item in items:
                    first, last = self._state(), self._state()
                    self.silent[start].append(first)
                    self._add(item, first, last)
                    self.silent[last].append(end)
            case Repeat(item, low, high):
                for _ in range(low):
                    middle = self._state()
                    self._add(item, start, middle)
                    start = middle
                if high is None:
                    loop, last = self._state(), self._state()
                    self.silent[start].append(loop)
                    self._add(item, loop, last)
                    self.silent[last].append(loop)
                    self.silent[loop].append(end)
                    return
                for _ in range(high - low):
                    self.silent[start].append(end)
                    middle = self._state()
                    self._add(item, start, middle)
                    start = middle
                self.silent[start].append(end)


class _Sets:
    """The subset construction."""

    def __init__(self, guessing: _Guessing) -> None:
        self._guessing = guessing
        self._work = 0
        self._numbers: dict[frozenset[int], int] = {}
        self._waiting: list[frozenset[int]] = []
        self._moves: list[dict[int, list[tuple[int, int]]]] = []

    def automaton(self) -> Automaton:
        self._number(self._closure([0]))
        while self._waiting:
            self._expand(self._waiting.pop())
        final = {number for states, number in self._numbers.items() if 1 in states}
        return self._without_dead_ends(final)

    def _number(self, states: frozenset[int]) -> int:
        number = self._numbers.get(states)
        if number is None:
            number = self._numbers[states] = len(self._numbers)
            if number >= MAX_STATES:
                raise TooComplex("the expression has to remember too much")
            self._moves.append({})
            self._waiting.append(states)
        return number

    def _closure(self, states: list[int]) -> frozenset[int]:
        found = set(states)
        waiting = states
        while waiting:
            for other in self._guessing.silent[waiting.pop()]:
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        self._work += len(found)
        if self._work > MAX_WORK:
            raise TooComplex("the expression has too many ways to match")
        # Only these matter for what follows; without the others a loop is one state.
        letters = self._guessing.letters
        return frozenset(state for state in found if letters[state] or state == 1)

    def _expand(self, states: frozenset[int]) -> None:
        ways = [way for state in states for way in self._guessing.letters[state]]
        bounds = sorted({
            bound for ranges, _ in ways for low, high in ranges for bound in (low, high + 1)
        })  # fmt: skip
        moves = self._moves[self._numbers[states]]
        starts: dict[int, set[int]] = {}
        ends: dict[int, set[int]] = {}
        for way, (ranges, _) in enumerate(ways):
            for low, high in ranges:
                starts.setdefault(low, set()).add(way)
                ends.setdefault(high + 1, set()).add(way)
        active: set[int] = set()
        targets: dict[frozenset[int], int] = {}
        for low, following in pairwise(bounds):
            active -= ends.get(low, set())
            active |= starts.get(low, set())
            self._work += len(active)
            if active:
                goal = frozenset(ways[way][1] for way in active)
                number = targets.get(goal)
                if number is None:
                    number = targets[goal] = self._number(self._closure(list(goal)))
                moves.setdefault(number, []).append((low, following - 1))

    def _without_dead_ends(self, final: set[int]) -> Automaton:
        # In Thompson's construction every state leads to the end, and so does every set of them;
        # only a choice of nothing has none.
        if not final:
            raise TooComplex("no text matches the expression")
        return Automaton(
            tuple(
                tuple((ranges_of(pairs), goal) for goal, pairs in moves.items())
                for moves in self._moves
            ),
            frozenset(final),
        )
