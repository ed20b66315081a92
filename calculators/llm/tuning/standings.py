"""`Standing`: one candidate beside the defaults, and the choice between candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import median
from typing import Final, NamedTuple

from calculators.llm.tuning.candidates import Candidate
from calculators.llm.tuning.trial import Round

_CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A median between its limits of confidence (95 %)."""

    low: float
    median: float
    high: float

    @property
    def width(self) -> float:
        """The distance of the limits, as a part of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of one or more values, with its limits.

    The limits are values themselves, counted from both ends so far that the binomial distribution
    keeps 95 % between them: nothing is assumed about the values. Fewer than six cannot give that
    confidence; their limits are the least and the greatest.
    """
    ordered = sorted(values)
    place = _place(len(ordered))
    return Interval(ordered[place], median(ordered), ordered[-1 - place])


def _place(count: int) -> int:
    """Return how many values may lie outside of the limits at each end."""
    outside, place = 0.0, 0
    while True:
        outside += 2 * comb(count, place) / 2**count
        if outside > 1 - _CONFIDENCE:
            return max(0, place - 1)
        place += 1


#: A gain below this part is none: the defaults stay.
LEAST_GAIN: Final = 0.03


@dataclass(slots=True)
class Standing:
    """The measurements of one candidate.

    Attributes:
        pairs: rounds of the defaults and of the candidate with the same requests, one right after
            the other.
        different_answers: the number of greedy answers that are not those of the defaults, out of
            ``compared_answers``; None: not compared.
        failure: the reason why it cannot be loaded; "" if it can.
    """

    candidate: Candidate
    pairs: list[tuple[Round, Round]] = field(default_factory=list)
    different_answers: int | None = None
    compared_answers: int = 0
    failure: str = ""

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def is_measured(self) -> bool:
        return bool(self.pairs)

    @property
    def changes_answers(self) -> bool:
        """True if the candidate is known, or was seen, to change answers."""
        return self.candidate.changes_answers or bool(self.different_answers)

    @property
    def speed(self) -> Interval:
        """The throughput as a multiple of the defaults'. Only if measured."""
        return median_interval([ours.seconds / its.seconds for ours, its in self.pairs])

    @property
    def tokens_per_second(self) -> float:
        return median(its.tokens / its.seconds for _, its in self.pairs)

    @property
    def first_token(self) -> float:
        """Seconds until the first token; the median of the rounds' medians."""
        return median(its.first_token for _, its in self.pairs)

    @property
    def first_token_ratio(self) -> float:
        """The wait for the first token as a multiple of the defaults'."""
        return median(its.first_token / ours.first_token for ours, its in self.pairs)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Bounds of a choice.

    Attributes:
        may_change_answers: settings that change answers may be chosen.
        most_first_token: the longest wait for the first token, as a multiple of the defaults'.
    """

    may_change_answers: bool = False
    most_first_token: float = 1.5

    def objection(self, standing: Standing) -> str:
        """Return why a candidate cannot be chosen, in words; "" if it can."""
        if standing.failure:
            return "cannot be loaded"
        if not standing.is_measured:
            return "not measured"
        if standing.changes_answers and not self.may_change_answers:
            return "changes answers"
        if standing.first_token_ratio > self.most_first_token:
            return "first token too late"
        return ""


def best_first(standings: Iterable[Standing]) -> list[Standing]:
    """Order measured candidates by the medians of their speeds."""
    return sorted(
        (each for each in standings if each.is_measured),
        key=lambda each: each.speed.median,
        reverse=True,
    )


def promising(standings: Sequence[Standing], conditions: Conditions) -> list[Standing]:
    """Return the better half of the candidates that may still win, best first.

    A candidate may win while its interval reaches both the defaults and the leader.
    """
    able = best_first(each for each in standings if not conditions.objection(each))
    if not able:
        return []
    least = max(1.0, able[0].speed.low)
    reaching = [each for each in able if each.speed.high >= least]
    return reaching[: max(1, len(able) // 2)]


def choose(standings: Iterable[Standing], conditions: Conditions) -> Standing | None:
    """Return the fastest candidate that may be chosen and is better; None: the defaults are best.

    Better is a gain of 3 % or more in the median, and some gain at the lower end of the interval.
    """
    for each in best_first(standings):
        if conditions.objection(each):
            continue
        speed = each.speed
        if speed.median >= 1 + LEAST_GAIN and speed.low > 1.0:
            return each
    return None
