"""Texts that are so many letters long, in rules that do not grow with the count.

In an automaton each letter has a state of its own, and for each the engine's library looks at the
whole vocabulary: 30 to 75 ms for 150,000 tokens. Here all letters but the last `NEAR` are one
rule. What follows it is declared: `NEAR` more letters, or the end. So the library knows of every
token that is no longer that it fits, without counting. It does so only for a rule that is referred
to once (xgrammar 0.1.31, "exact lookahead"): the count is in the rules above.

Longer tokens are left out: their texts are still written, in shorter tokens.
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

#: Letters at the end that have states of their own. Longer tokens than one more are left out.
NEAR: Final = 12
#: A letter that is written in more ways than this is left to the automaton.
MAX_WAYS: Final = 16

Word = tuple[Ranges, ...]


@dataclass(frozen=True, slots=True)
class BoundedRepeat:
    """``low`` to ``high`` letters between two texts; None is without end.

    Attributes:
        ways: how one letter can be written; no way begins another one or ``end``.
        stop: the first letter of the end, or one that no letter begins with.
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
        """How many of them are counted by rules."""
        return self.low if self.high is None else self.high - NEAR

    @property
    def near(self) -> Node:
        """The others, and the end."""
        rest = None if self.high is None else NEAR
        node = Repeat(self.letter, max(0, self.low - self.far), rest)
        return Sequence((node, *map(CharClass, self.end)))


def counted_letters(node: Node) -> BoundedRepeat | None:
    """An expression of this kind that is worth it."""
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
    """Those that differ in their last letter only are one."""
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
    """Letter by letter; None where something repeats."""
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
        case Repeat():
            return None


def _other_letter(ways: tuple[Word, ...]) -> Word:
    for code in range(0x80):
        word = (((code, code),),)
        if all(_differ(word, way) for way in ways):
            return word
    return ()


def _differ(one: Word, other: Word) -> bool:
    """At a place that both have."""
    pairs = zip(one, other, strict=False)
    return any(not _overlap([*mine, *others]) for mine, others in pairs)


def _overlap(ranges: list[tuple[int, int]]) -> bool:
    ordered = sorted(ranges)
    return any(low <= last for (_, last), (low, _) in pairwise(ordered))
