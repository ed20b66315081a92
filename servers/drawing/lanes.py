"""The lanes of a gap between two layers: places along for the pieces of lines that run across.

Of two pieces whose spans overlap, the one that is cut less often by the other's ends goes first
(Sander 2004). A pair of lines that would lie on one another is kept apart by the order of their
lanes, or, where two lines change places, by a lane more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Lines that are nearer to each other are taken for one.
CLEARANCE = 5.0
_NEVER = 1_000_000


@dataclass(slots=True)
class Trunk:
    """The part of a piece that runs across.

    Attributes:
        before, behind: places across of its ends at either side.
        lane: its number, from 0; -1 without one, because it is straight.
        extra: places that it reaches without an end.
        second: the lane behind ``middle`` (across), if it needs two; else -1.
    """

    before: Sequence[float]
    behind: Sequence[float]
    extra: Sequence[float] = ()
    lane: int = -1
    second: int = -1
    middle: float = 0.0
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        ends = [*self.before, *self.behind, *self.extra]
        self.low, self.high = min(ends), max(ends)

    @property
    def is_straight(self) -> bool:
        return self.high - self.low < 0.01


def assign_lanes(trunks: Sequence[Trunk]) -> int:
    """Give each trunk its lane, and return the number of lanes."""
    bent = [trunk for trunk in trunks if not trunk.is_straight]
    count = len(bent)
    after: list[dict[int, int]] = [{} for _ in bent]  # lanes that follow, with what it costs if not
    apart: list[set[int]] = [set() for _ in bent]
    for a in range(count):
        for b in range(a + 1, count):
            first, second = bent[a], bent[b]
            if first.low >= second.high + CLEARANCE or second.low >= first.high + CLEARANCE:
                continue
            apart[a].add(b)
            apart[b].add(a)
            cost = _cost(first, second) - _cost(second, first)
            if cost < 0:
                after[a][b] = -cost
            elif cost > 0:
                after[b][a] = cost
    order = _without_cycles(count, after)
    lanes = [-1] * count
    place = {each: number for number, each in enumerate(order)}
    for each in order:
        least = max(
            (
                lanes[other] + 1
                for other in apart[each]
                if place[other] < place[each] and each in after[other]
            ),
            default=0,
        )
        taken = {lanes[other] for other in apart[each] if lanes[other] >= 0}
        while least in taken:
            least += 1
        lanes[each] = least
    number = max(lanes, default=-1) + 1
    for each, lane in enumerate(lanes):
        bent[each].lane = lane
    return _split(bent, number)


def _cost(first: Trunk, second: Trunk) -> int:
    """Return the number of crossings if the first one has the lane before the second one's."""
    total = 0
    for end in first.behind:
        total += second.low < end < second.high
        if any(abs(end - other) < CLEARANCE for other in second.before):
            total += _NEVER
    for end in second.before:
        total += first.low < end < first.high
    return total


def _without_cycles(count: int, after: list[dict[int, int]]) -> list[int]:
    """Return an order in which few and cheap rules are broken (Eades, Lin, Smyth 1993)."""
    ins = [0] * count
    outs = [0] * count
    before: list[dict[int, int]] = [{} for _ in range(count)]
    for a, rules in enumerate(after):
        for b, cost in rules.items():
            before[b][a] = cost
            outs[a] += cost
            ins[b] += cost
    left = dict.fromkeys(range(count))
    head: list[int] = []
    tail: list[int] = []

    def take(each: int) -> None:
        del left[each]
        for other, cost in after[each].items():
            ins[other] -= cost
        for other, cost in before[each].items():
            outs[other] -= cost

    while left:
        sinks = [each for each in left if not outs[each] and ins[each]]
        starts = [each for each in left if not ins[each]]
        if starts:
            for each in starts:
                head.append(each)
                take(each)
        elif sinks:
            for each in sinks:
                tail.append(each)
                take(each)
        else:
            each = max(left, key=lambda one: (outs[one] - ins[one], -one))
            head.append(each)
            take(each)
    return head + tail[::-1]


def _split(bent: list[Trunk], number: int) -> int:
    """Give a lane more to one of two trunks that change places."""
    for first in bent:
        for second in bent:
            if (
                first is not second
                and first.second < 0
                and second.second < 0
                and not first.extra
                and first.lane < second.lane
                and _cost(first, second) >= _NEVER
            ):
                # The lines of its ends behind begin behind the other one's ends before.
                first.second = number
                first.middle = _free(first, bent)
                number += 1
    return number


def _free(trunk: Trunk, bent: list[Trunk]) -> float:
    """Return a place across, within the trunk if possible, without the end of any line near it."""
    ends = sorted(end for each in bent for end in (*each.before, *each.behind))
    inner = [end for end in ends if trunk.low <= end <= trunk.high]
    gaps = [(b - a, (a + b) / 2) for a, b in pairwise(inner)]
    return max(gaps)[1] if gaps else (trunk.low + trunk.high) / 2
