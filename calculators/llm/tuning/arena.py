"""`Arena`: candidates measured in turns, each beside the defaults with the same requests.

A `CandidateStanding` has the measurements of one candidate; its interval says how sure they are.
`promising` and `choose` compare standings.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from statistics import median
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple, Self

from calculators.kit.child_process.supervisor import LoadError
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.tuning.candidates import Candidate
from calculators.llm.tuning.trial import PromptMaker, Round, Trial, TrialConversation, TuningLoad
from graph_runtime import ResourceError

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
class CandidateStanding:
    """The measurements of one candidate.

    Attributes:
        pairs: rounds of the defaults and of the candidate with the same requests, one right after
            the other.
        different_answers: the number of greedy answers that differ from the defaults', out of
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

    def objection(self, standing: CandidateStanding) -> str:
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


def best_first(standings: Iterable[CandidateStanding]) -> list[CandidateStanding]:
    """Order measured candidates by the medians of their speeds."""
    return sorted(
        (each for each in standings if each.is_measured),
        key=lambda each: each.speed.median,
        reverse=True,
    )


def promising(
    standings: Sequence[CandidateStanding], conditions: Conditions
) -> list[CandidateStanding]:
    """Return the better half of the candidates that may still win, best first.

    A candidate may win while its interval reaches both the defaults and the leader.
    """
    able = best_first(each for each in standings if not conditions.objection(each))
    if not able:
        return []
    least = max(1.0, able[0].speed.low)
    reaching = [each for each in able if each.speed.high >= least]
    return reaching[: max(1, len(able) // 2)]


def choose(
    standings: Iterable[CandidateStanding], conditions: Conditions
) -> CandidateStanding | None:
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


#: A disturbed round takes this multiple of the usual time.
_DISTURBED: Final = 1.5
#: Rounds after which the usual time is known.
_KNOWN_AFTER: Final = 3


class UsualTime:
    """The seconds of the defaults' rounds; the usual time is their median.

    The best time would not do: it may be of a round without other engines, which no later round
    reaches.
    """

    def __init__(self) -> None:
        self._times: list[float] = []

    def is_disturbed(self, seconds: float) -> bool:
        """Add a round; return True if it took so long that it does not count."""
        self._times.append(seconds)
        is_known = len(self._times) > _KNOWN_AFTER
        return is_known and seconds > _DISTURBED * median(self._times)


#: Answers by which settings are compared, and their tokens.
_ANSWERS: Final = 3
_ANSWER_TOKENS: Final = 32
#: Engines that run at a time, whatever the memory.
_FEWEST, _MOST = 2, 9
#: The least part of its prompts and answers to which a load is cut for a slow model.
_SMALLEST_SCALE: Final = 0.25
#: Conversations that one client holds in a round, at most.
_MOST_REPEATS: Final = 64

#: Returns the settings of the engine that a candidate's graph would have; raises ResourceError.
SettingsOf = Callable[[Candidate], EngineSettings]


class Arena:
    """Engines, requests and measurements. Use it as a context manager.

    Attributes:
        load: as it is run; on slow models with shorter prompts and answers.
        base: the measurements of the defaults, paired with themselves.
        discarded: rounds that did not count, see `UsualTime`.
    """

    def __init__(
        self, settings_of: SettingsOf, prompts: PromptMaker, load: TuningLoad, round_seconds: float
    ) -> None:
        """``round_seconds``: the time that a round of the defaults should take."""
        self._settings_of = settings_of
        self._prompts = prompts
        self.load = load
        self._round_seconds = round_seconds
        self._repeats = 1
        self._open: dict[Candidate, Trial] = {}
        self._most_open = _FEWEST
        self._own_answers: list[list[int]] = []
        self._questions: list[bytes] = []
        self._usual = UsualTime()
        self._turn = itertools.count()
        self.base = CandidateStanding(Candidate())
        self.discarded = 0

    async def __aenter__(self) -> Self:
        """Load the model with the default settings, and choose the size of a round.

        Raises:
            LoadError: it cannot be loaded.
        """
        trial = await Trial.open(self._settings_of(Candidate()), "defaults")
        self._open[Candidate()] = trial
        try:
            self._questions = [
                each.prompt for each in await self._prompts.make(self.load, _ANSWERS)
            ]
            self._own_answers = await trial.answers(self._questions, _ANSWER_TOKENS)
            await self._choose_size(trial)
            self._most_open = _most_engines(trial.pid)
        except BaseException:
            await trial.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for trial in self._open.values():
            await trial.close()

    async def _choose_size(self, trial: Trial) -> None:
        # The first round computes what later ones find ready.
        first = await trial.run(await self._requests())
        seconds = first.seconds
        if seconds < self._round_seconds:
            seconds = (await trial.run(await self._requests())).seconds
        share = self._round_seconds / seconds
        self._repeats = max(1, min(_MOST_REPEATS, round(share)))
        self.load = self.load.scaled(max(_SMALLEST_SCALE, min(1.0, share)))

    @property
    def requests(self) -> int:
        """Answers that one round has."""
        return self.load.streams * self._repeats * (self.load.follow_ups + 1)

    async def measure(
        self, standings: Sequence[CandidateStanding], rounds: int, until: float
    ) -> None:
        """Add rounds to each standing: as many as asked for, or as fit into the time.

        Each candidate gets one round at least if it can be loaded in time.

        Args:
            until: a time of the monotonic clock, after which nothing more begins.
        """
        # The engine of the defaults stays open: every pass compares with it.
        size = self._most_open - 1
        heats = [standings[first : first + size] for first in range(0, len(standings), size)]
        await self._keep_only([] if len(heats) > 1 else standings)
        for heat in heats:
            able = [each for each in heat if monotonic() < until and await self._enter(each)]
            done = tries = 0
            while able and done < rounds and tries < 2 * rounds:
                if tries and monotonic() >= until:
                    break
                tries += 1
                done += await self._pass(able)
            if len(heats) > 1:
                await self._keep_only([])

    async def _enter(self, standing: CandidateStanding) -> bool:
        """Start the candidate's engine unless it runs; compare its answers once."""
        candidate = standing.candidate
        if candidate in self._open:
            return True
        if standing.failure:
            return False
        try:
            trial = await Trial.open(self._settings_of(candidate), candidate.name)
        except (LoadError, ResourceError) as error:
            standing.failure = str(error)
            return False
        self._open[candidate] = trial
        answers = await trial.answers(self._questions, _ANSWER_TOKENS)
        standing.compared_answers = len(answers)
        standing.different_answers = sum(
            its != ours for its, ours in zip(answers, self._own_answers, strict=True)
        )
        # Not measured: kernels are compiled for the shapes of these requests.
        await trial.run(await self._requests(repeats=1))
        return True

    async def _keep_only(self, standings: Sequence[CandidateStanding]) -> None:
        """Close the engines of all other candidates, but the one of the defaults."""
        kept = {Candidate(), *(each.candidate for each in standings)}
        for candidate in [each for each in self._open if each not in kept]:
            await self._open.pop(candidate).close()

    async def _pass(self, standings: Sequence[CandidateStanding]) -> bool:
        """Let the defaults and each candidate run the same requests; True if the pass counts."""
        requests = await self._requests()
        runners: list[CandidateStanding | None] = [None, *standings]
        # In turn, so that none always follows the same one.
        first = next(self._turn) % len(runners)
        rounds: dict[int, Round] = {}
        for each in [*runners[first:], *runners[:first]]:
            candidate = Candidate() if each is None else each.candidate
            rounds[id(each)] = await self._open[candidate].run(requests)
        ours = rounds[id(None)]
        if self._usual.is_disturbed(ours.seconds):
            self.discarded += 1
            return False
        self.base.pairs.append((ours, ours))
        for standing in standings:
            standing.pairs.append((ours, rounds[id(standing)]))
        return True

    async def _requests(self, repeats: int | None = None) -> list[list[TrialConversation]]:
        """Return new conversations for each client."""
        count = self._repeats if repeats is None else repeats
        return [await self._prompts.make(self.load, count) for _ in range(self.load.streams)]


def _most_engines(pid: int | None) -> int:
    """Return how many engines may run at a time: half of the free memory is theirs."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return _FEWEST
    return max(_FEWEST, min(_MOST, free // 2 // max(1, pages)))
