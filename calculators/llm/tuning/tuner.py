"""The search: successive halving of single changes, then of their combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from calculators.llm.tuning.candidates import Candidate, combined
from calculators.llm.tuning.standings import (
    LEAST_GAIN,
    Conditions,
    Standing,
    best_first,
    choose,
    promising,
)

#: Parts of the budget after which each stage ends.
_SINGLES, _COMBINED, _SHOWN = 0.5, 0.7, 0.85
_FIRST_ROUNDS: Final = 2
#: The width of the winner's interval at which measuring ends.
_ENOUGH: Final = LEAST_GAIN
#: Rounds that an interval needs (`median_interval`).
_LEAST_ROUNDS: Final = 6
_MOST_ROUNDS: Final = 40


@dataclass(slots=True)
class Outcome:
    """The result of a search.

    Attributes:
        winner: None: the defaults are best.
        standings: all candidates, also those that were not measured for lack of time.
        base: the defaults.
    """

    winner: Standing | None
    base: Standing
    standings: list[Standing] = field(default_factory=list)


class Measuring(Protocol):
    """Measures candidates beside the defaults; see `calculators.llm.tuning.arena.Arena`."""

    @property
    def base(self) -> Standing: ...

    async def measure(self, standings: Sequence[Standing], rounds: int, until: float) -> None: ...


class Tuner:
    """Searches the settings for one load within a budget of time."""

    def __init__(
        self,
        arena: Measuring,
        conditions: Conditions,
        budget: float,
        report: Callable[[str, Sequence[Standing]], None] = lambda stage, standings: None,
    ) -> None:
        """``budget``: seconds; ``report``: called with stage and candidates after each."""
        self._arena = arena
        self._conditions = conditions
        self._report = report
        self._start = monotonic()
        self._budget = budget

    async def search(self, candidates: Iterable[Candidate]) -> Outcome:
        """Measure candidates with one change each, and then combinations of the best ones.

        Settings that are known to change answers compete only where the conditions allow it; else
        they are measured a little, to be shown.
        """
        singles = [Standing(each) for each in candidates]
        allowed = self._conditions.may_change_answers
        able = [each for each in singles if allowed or not each.candidate.changes_answers]
        shown = [each for each in singles if each not in able]
        finalists = await self._halve("single settings", able, self._until(_SINGLES))
        joint = [Standing(each) for each in combined(each.candidate for each in self._gains(able))]
        if joint:
            runners = [*joint, *finalists[:1]]
            await self._halve("combined settings", runners, self._until(_COMBINED))
        if shown:
            await self._arena.measure(shown, _FIRST_ROUNDS, self._until(_SHOWN))
            self._report("settings that change answers", shown)
        competing = [*able, *joint]
        winner = await self._decide(competing)
        return Outcome(winner, self._arena.base, [*competing, *shown])

    def _until(self, part: float) -> float:
        return self._start + part * self._budget

    def _gains(self, standings: Iterable[Standing]) -> list[Standing]:
        """Return the candidates that are probably faster than the defaults, best first."""
        return [
            each
            for each in best_first(standings)
            if not self._conditions.objection(each) and each.speed.median > 1 + LEAST_GAIN / 2
        ]

    async def _halve(
        self, stage: str, standings: Sequence[Standing], until: float
    ) -> list[Standing]:
        """Measure, keep the better half, double the rounds, until one is left or time is up."""
        rounds = _FIRST_ROUNDS
        left = list(standings)
        while left:
            await self._arena.measure(left, rounds, until)
            self._report(stage, left)
            kept = promising(left, self._conditions)
            if len(kept) <= 1 or monotonic() >= until:
                return kept
            left, rounds = kept, rounds * 2
        return []

    async def _decide(self, standings: Sequence[Standing]) -> Standing | None:
        """Measure the fastest until its interval is narrow, and choose."""
        while (leader := next(iter(self._gains(standings)), None)) is not None:
            count = len(leader.pairs)
            is_known = count >= _LEAST_ROUNDS and leader.speed.width <= _ENOUGH
            if is_known or count >= _MOST_ROUNDS or monotonic() >= self._until(1.0):
                break
            await self._arena.measure([leader], 2, self._until(1.0))
            if len(leader.pairs) == count:
                break  # each further round was disturbed
            self._report("the fastest", [leader])
        return choose(standings, self._conditions)
