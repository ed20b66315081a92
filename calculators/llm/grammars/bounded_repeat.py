"""`BoundedRepeat`: texts of a bounded number of letters, in rules that are cheap to compile.

In an automaton each letter has a state of its own, and for each state the engine's library checks
the whole vocabulary: 30 to 75 ms for 150,000 tokens. Here all letters but the last `NEAR` share one
rule, with a declared lookahead: `NEAR` more letters, or the end. So the library knows without
counting that every token up to that length fits. It does so only for a rule that is referred to
once (xgrammar 0.1.31, "exact lookahead"), so the count is in the rules above it.

Longer tokens are not allowed; their texts are still written, in shorter tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

from calculators.llm.grammars.regular_expression import (
    CharClass,
    Choice,
    Node,
    Ranges,
    Repeat,
    Sequence,
)

#: Letters at the end that have states of their own. Tokens longer than one more are not allowed.
NEAR: Final = 12
#: Ways to write one letter; with more the automaton is used.
MAX_WAYS: Final = 16

Word = tuple[Ranges, ...]


@dataclass(frozen=True, slots=True)
class BoundedRepeat:
    """``low`` to ``high`` letters between two texts; None is without end.

    Attributes:
        ways: the ways to write one letter; none is a prefix of another or of ``end``.
        stop: the first letter of ``end``, or a letter with which no way begins.
    """

    begin: Word
    letter: Node
    ways: tuple[Word, ...]
    low: int
    high: int | None
    end: Word
    stop: Word

    @property
    def far(self) -> int:
        """The number of letters that rules count."""
        return self.low if self.high is None else self.high - NEAR

    @property
    def near(self) -> Node:
        """The remaining letters and the end, for an automaton."""
        rest = None if self.high is None else NEAR
        node = Repeat(self.letter, max(0, self.low - self.far), rest)
        return Sequence((node, *map(CharClass, self.end)))


def counted_letters(node: Node) -> BoundedRepeat | None:
    """Convert an expression of this kind; None where it is another, or too short to pay off."""
    parts = node.items if isinstance(node, Sequence) else (node,)
    places = [at for at, part in enumerate(parts) if isinstance(part, Repeat)]
    if len(places) != 1:
        return None
    counted = parts[places[0]]
    assert isinstance(counted, Repeat)
    if (counted.low if counted.high is None else counted.high) <= NEAR:
        return None
    begin = _only(Sequence(parts[: places[0]]))
    end = _only(Sequence(parts[places[0] + 1 :]))
    ways = _ways(counted.item)
    if begin is None or end is None or not ways:
        return None
    stop = end[:1] or _other_letter(ways)
    if not stop or not all(_differ(*pair) for pair in combinations((*ways, stop), 2)):
        return None
    return BoundedRepeat(begin, counted.item, ways, counted.low, counted.high, end, stop)


def _only(node: Node) -> Word | None:
    words = _words(node)
    return words[0] if words is not None and len(words) == 1 else None


def _ways(node: Node) -> tuple[Word, ...] | None:
    """Return the ways to write a letter; ways that differ only in their last letter are one."""
    words = _words(node)
    if words is None or () in words:
        return None
    lasts: dict[Word, list[tuple[int, int]]] = {}
    for word in words:
        lasts.setdefault(word[:-1], []).extend(word[-1])
    if len(lasts) > MAX_WAYS or any(_overlap(last) for last in lasts.values()):
        return None
    return tuple((*first, tuple(sorted(last))) for first, last in lasts.items())


def _words(node: Node) -> list[Word] | None:
    """List the texts of an expression, letter by letter; None where they are endless."""
    match node:
        case CharClass(ranges):
            return [(ranges,)]
        case Choice(items):
            found = [_words(item) for item in items]
            return [word for words in found for word in words or ()] if all(found) else None
        case Sequence(items):
            made: list[Word] = [()]
            for item in items:
                words = _words(item)
                if words is None or len(words) * len(made) > 100:
                    return None
                made = [(*first, *second) for first in made for second in words]
            return made
        case _:
            return None


def _other_letter(ways: tuple[Word, ...]) -> Word:
    for code in range(0x80):
        word = (((code, code),),)
        if all(_differ(word, way) for way in ways):
            return word
    return ()


def _differ(one: Word, other: Word) -> bool:
    """True if the words differ at a position that both have, where no character fits both."""
    pairs = zip(one, other, strict=False)
    return any(not _overlap([*mine, *others]) for mine, others in pairs)


def _overlap(ranges: list[tuple[int, int]]) -> bool:
    ordered = sorted(ranges)
    return any(low <= last for (_, last), (low, _) in pairwise(ordered))
