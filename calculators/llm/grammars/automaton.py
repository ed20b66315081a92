"""`Automaton`: an expression as a deterministic automaton.

The engine's library is an Earley parser, whose time grows with the cube of the text's length for
ambiguous expressions: 200 letters of ``(a*a*)*b`` took it 30 s. In a deterministic automaton every
letter costs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from calculators.llm.grammars.regular_expression import (
    LAST,
    Alternation,
    Both,
    Boundary,
    CharClass,
    Concatenation,
    Node,
    Not,
    Ranges,
    Repeat,
    all_but,
    ranges_of,
)

#: States of the nondeterministic automaton, and of the deterministic one. The first bounds an
#: expression with its counts written out, the second one like ``(a|b)*a(a|b){20}``, which has to
#: remember 20 letters.
MAX_GUESSING: Final = 20_000
MAX_STATES: Final = 1_500
#: Work of the subset construction: members of the sets of states, in all.
MAX_WORK: Final = 400_000


_State = TypeVar("_State")


class TooComplex(ValueError):
    """The expression needs too many states."""


class NoTextError(ValueError):
    """No text matches."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """A deterministic automaton. State 0 is the first.

    Attributes:
        moves: for each state its transitions; no letter is in two of them.
        final: the states in which the text may end.
    """

    moves: tuple[tuple[tuple[Ranges, int], ...], ...]
    final: frozenset[int]

    def accepts(self, text: str) -> bool:
        """Return True if the text matches."""
        state = 0
        for letter in text:
            code = ord(letter)
            for ranges, goal in self.moves[state]:
                if any(low <= code <= high for low, high in ranges):
                    state = goal
                    break
            else:
                return False
        return state in self.final


def make_automaton(node: Node) -> Automaton:
    """Make the automaton of an expression; each of its states can reach an end.

    Raises:
        TooComplex: it exceeds `MAX_GUESSING`, `MAX_STATES` or `MAX_WORK`.
        NoTextError: no text matches.
    """
    match node:
        case Both(one, other):
            return intersection(make_automaton(one), make_automaton(other))
        case Not(item):
            try:
                return complement(make_automaton(item))
            except NoTextError:
                return ANYTHING
        case _:
            return _Sets(_Guessing(node)).automaton()


def intersection(one: Automaton, other: Automaton) -> Automaton:
    """Return the automaton of the texts that match both.

    Raises:
        TooComplex: it has more than `MAX_STATES` states.
        NoTextError: no text matches both.
    """
    return _explored(
        (0, 0),
        lambda pair: _common_moves(one.moves[pair[0]], other.moves[pair[1]]),
        lambda pair: pair[0] in one.final and pair[1] in other.final,
    )


def _common_moves(
    one: Sequence[tuple[Ranges, int]], other: Sequence[tuple[Ranges, int]]
) -> Iterable[tuple[Ranges, tuple[int, int]]]:
    for mine, goal in one:
        for others, target in other:
            common = tuple(
                (max(low, first), min(high, last))
                for low, high in mine
                for first, last in others
                if max(low, first) <= min(high, last)
            )
            if common:
                yield common, (goal, target)


def complement(automaton: Automaton) -> Automaton:
    """Return the automaton of all other texts.

    Raises:
        NoTextError: there are none.
    """
    sink = len(automaton.moves)
    moves = []
    for state in automaton.moves:
        others = all_but(each for ranges, _ in state for each in ranges)
        moves.append((*state, (others, sink)) if others else state)
    moves.append(((((0, LAST),), sink),))
    final = frozenset(range(sink + 1)) - automaton.final
    return useful(Automaton(tuple(moves), final))


def _explored(
    first: _State,
    moves_of: Callable[[_State], Iterable[tuple[Ranges, _State]]],
    is_final: Callable[[_State], bool],
) -> Automaton:
    """Return the automaton of states that can be reached from the first one."""
    numbers = {first: 0}
    waiting = [first]
    moves: list[tuple[tuple[Ranges, int], ...]] = []
    while len(moves) < len(waiting):
        found = []
        for ranges, goal in moves_of(waiting[len(moves)]):
            number = numbers.get(goal)
            if number is None:
                number = numbers[goal] = len(waiting)
                waiting.append(goal)
                if number >= MAX_STATES:
                    raise TooComplex("the expression has to remember too much")
            found.append((ranges, number))
        moves.append(tuple(found))
    final = frozenset(number for state, number in numbers.items() if is_final(state))
    return useful(Automaton(tuple(moves), final))


def explored(
    first: _State,
    moves_of: Callable[[_State], Iterable[tuple[Ranges, _State]]],
    is_final: Callable[[_State], bool],
) -> Automaton:
    """Return the smallest automaton with the states that can be reached from the first one.

    Args:
        moves_of: the transitions of a state; no letter is in two of them.

    Raises:
        TooComplex: it has more than `MAX_STATES` states.
        NoTextError: no state is final.
    """
    return smallest(_explored(first, moves_of, is_final))


def useful(automaton: Automaton) -> Automaton:
    """Return the automaton without states that reach no end.

    Raises:
        NoTextError: the first state reaches none.
    """
    before: list[list[int]] = [[] for _ in automaton.moves]
    for state, moves in enumerate(automaton.moves):
        for _, goal in moves:
            before[goal].append(state)
    alive = set(automaton.final)
    waiting = list(alive)
    while waiting:
        for state in before[waiting.pop()]:
            if state not in alive:
                alive.add(state)
                waiting.append(state)
    if 0 not in alive:
        raise NoTextError("no text matches the expression")
    reached = [0]
    numbers = {0: 0}
    for state in reached:
        for _, goal in automaton.moves[state]:
            if goal in alive and goal not in numbers:
                numbers[goal] = len(numbers)
                reached.append(goal)
    return Automaton(
        tuple(
            tuple((ranges, numbers[goal]) for ranges, goal in automaton.moves[state]
                  if goal in numbers)
            for state in reached
        ),
        frozenset(numbers[state] for state in automaton.final if state in numbers),
    )  # fmt: skip


def smallest(automaton: Automaton) -> Automaton:
    """Return the automaton with the fewest states."""
    order = _ends_first(automaton)
    return _refined(automaton) if order is None else _folded(automaton, order)


def _ends_first(automaton: Automaton) -> list[int] | None:
    """Return the states so that each comes after those it leads to; None if there is a loop."""
    order: list[int] = []
    left = [len({goal for _, goal in moves}) for moves in automaton.moves]
    before: list[set[int]] = [set() for _ in automaton.moves]
    for state, moves in enumerate(automaton.moves):
        for _, goal in moves:
            before[goal].add(state)
    waiting = [state for state, count in enumerate(left) if not count]
    while waiting:
        state = waiting.pop()
        order.append(state)
        for each in before[state]:
            left[each] -= 1
            if not left[each]:
                waiting.append(each)
    return order if len(order) == len(automaton.moves) else None


def _joined(
    moves: Iterable[tuple[Ranges, int]], classes: Sequence[int]
) -> tuple[tuple[Ranges, int], ...]:
    goals: dict[int, list[tuple[int, int]]] = {}
    for ranges, goal in moves:
        goals.setdefault(classes[goal], []).extend(ranges)
    return tuple((ranges_of(ranges), goal) for goal, ranges in sorted(goals.items()))


def _folded(automaton: Automaton, order: Sequence[int]) -> Automaton:
    """Join equal states of an automaton without loops."""
    numbers: dict[object, int] = {}
    classes = [0] * len(order)
    made: list[tuple[tuple[Ranges, int], ...]] = []
    final: set[int] = set()
    for state in order:
        moves = _joined(automaton.moves[state], classes)
        is_final = state in automaton.final
        number = classes[state] = numbers.setdefault((is_final, moves), len(made))
        if number == len(made):
            made.append(moves)
            if is_final:
                final.add(number)
    # The first state comes last.
    last = len(made) - 1
    return Automaton(
        tuple(tuple((ranges, last - goal) for ranges, goal in moves) for moves in reversed(made)),
        frozenset(last - state for state in final),
    )


def _refined(automaton: Automaton) -> Automaton:
    """Refine the partition of the states until no class has two kinds of states."""
    count = len(automaton.moves)
    classes = [int(state in automaton.final) for state in range(count)]
    number = len(set(classes))
    while True:
        signatures: dict[object, int] = {}
        refined = []
        for state in range(count):
            signature = (classes[state], _joined(automaton.moves[state], classes))
            refined.append(signatures.setdefault(signature, len(signatures)))
        classes = refined
        if len(signatures) == number:
            break
        number = len(signatures)
    first: dict[int, int] = {}
    for state in range(count):
        first.setdefault(classes[state], state)
    # The class of state 0 has the number 0.
    moves = [_joined(automaton.moves[state], classes) for state in first.values()]
    return Automaton(tuple(moves), frozenset(classes[state] for state in automaton.final))


#: The texts of any letters.
ANYTHING: Final = Automaton((((((0, LAST),), 0),),), frozenset({0}))


class _Guessing:
    """A nondeterministic automaton by Thompson's construction; first state 0, last state 1."""

    def __init__(self, node: Node) -> None:
        self.silent: list[list[int]] = [[], []]
        self.letters: list[list[tuple[Ranges, int]]] = [[], []]
        #: For each state the states after a boundary.
        self.boundaries: dict[int, list[tuple[Boundary, int]]] = {}
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
            case Boundary():
                self.boundaries.setdefault(start, []).append((node, end))
            case Both() | Not():
                self._add_automaton(node, start, end)
            case Concatenation(items):
                for item in items[:-1]:
                    middle = self._state()
                    self._add(item, start, middle)
                    start = middle
                if items:
                    self._add(items[-1], start, end)
                else:
                    self.silent[start].append(end)
            case Alternation(items):
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
            case _:
                raise TypeError("an assertion is left in the expression")

    def _add_automaton(self, node: Node, start: int, end: int) -> None:
        try:
            automaton = make_automaton(node)
        except NoTextError:
            return
        states = [self._state() for _ in automaton.moves]
        self.silent[start].append(states[0])
        for state, moves in zip(states, automaton.moves, strict=True):
            self.letters[state] += [(ranges, states[goal]) for ranges, goal in moves]
        for state in automaton.final:
            self.silent[states[state]].append(end)


#: A place in a text, for boundaries: its end, or a letter of this kind.
_END, _WORD, _OTHER, _FOREIGN = "end", "word", "other", "foreign"
_WORDS: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_FOREIGN_LETTERS: Final = ((0x80, LAST),)
_SIDES: Final[dict[str, Ranges]] = {
    _WORD: _WORDS,
    _OTHER: all_but((*_WORDS, *_FOREIGN_LETTERS)),
    _FOREIGN: _FOREIGN_LETTERS,
}


def _holds(boundary: Boundary, before: str, after: str) -> bool:
    """Return True if a boundary is between two letters of these kinds.

    Whether letters beyond ASCII are parts of words depends on who asks: ECMA 262 says no, Python
    yes. So there is neither an edge of a word beside them, nor none; or either, if it is loose.
    """
    match boundary.kind:
        case "^":
            return before == _END
        case "$":
            return after == _END
        case _ if _FOREIGN in (before, after):
            return boundary.is_loose
        case kind:
            return ((before == _WORD) != (after == _WORD)) == (kind == "b")


def _with_boundaries(guessing: _Guessing) -> Automaton:
    """The subset construction where the states to follow depend on the letters around a place."""

    def closure(states: Iterable[int], before: str, after: str) -> set[int]:
        found, waiting = set(states), list(states)
        while waiting:
            state = waiting.pop()
            goals = [goal for boundary, goal in guessing.boundaries.get(state, ())
                     if _holds(boundary, before, after)]  # fmt: skip
            for goal in (*guessing.silent[state], *goals):
                if goal not in found:
                    found.add(goal)
                    waiting.append(goal)
        return found

    def moves_of(
        state: tuple[frozenset[int], str],
    ) -> Iterable[tuple[Ranges, tuple[frozenset[int], str]]]:
        states, before = state
        for after, side in _SIDES.items():
            ways = [
                way for each in closure(states, before, after) for way in guessing.letters[each]
            ]
            bounds = sorted({
                bound for ranges in (*(ranges for ranges, _ in ways), side)
                for low, high in ranges for bound in (low, high + 1)
            })  # fmt: skip
            targets: dict[frozenset[int], list[tuple[int, int]]] = {}
            for low, following in pairwise(bounds):
                if any(first <= low <= last for first, last in side):
                    goal = frozenset(
                        goal for ranges, goal in ways
                        if any(first <= low <= last for first, last in ranges)
                    )  # fmt: skip
                    if goal:
                        targets.setdefault(goal, []).append((low, following - 1))
            for goal, pairs in targets.items():
                yield ranges_of(pairs), (goal, after)

    return explored(
        (frozenset({0}), _END),
        moves_of,
        lambda state: 1 in closure(state[0], state[1], _END),
    )


class _Sets:
    """The subset construction."""

    def __init__(self, guessing: _Guessing) -> None:
        self._guessing = guessing
        self._work = 0
        self._numbers: dict[frozenset[int], int] = {}
        self._waiting: list[frozenset[int]] = []
        self._moves: list[dict[int, list[tuple[int, int]]]] = []

    def automaton(self) -> Automaton:
        if self._guessing.boundaries:
            return _with_boundaries(self._guessing)
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
        return useful(
            Automaton(
                tuple(
                    tuple((ranges_of(pairs), goal) for goal, pairs in moves.items())
                    for moves in self._moves
                ),
                frozenset(final),
            )
        )
