"""`tune`: finds the settings of a language model for a load.

`Tuner` searches by successive halving: of single changes first, then of their combinations.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import msgspec

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_cache import ModelCache
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.tasks.task import ModelToServe
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.model_files import read_model_length
from calculators.llm.model_source import find_source
from calculators.llm.options.node_options import NodeOptions, read_options
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.task_graph import TextGeneration
from calculators.llm.tuning.arena import (
    LEAST_GAIN,
    Arena,
    CandidateStanding,
    Conditions,
    best_first,
    choose,
    promising,
)
from calculators.llm.tuning.candidates import Candidate, combined, single_changes
from calculators.llm.tuning.trial import PromptMaker, TuningLoad
from graph_runtime import (
    LoadProgress,
    ResourceError,
    ResourceSettings,
    find_options,
    parse_graph_text,
)
from protos import messages

#: Parts of the budget after which each stage ends.
_SINGLES, _COMBINED, _SHOWN = 0.5, 0.7, 0.85
_FIRST_ROUNDS: Final = 2
#: The width of the winner's interval at which measuring ends.
_ENOUGH: Final = LEAST_GAIN
#: Rounds that an interval needs (`median_interval`).
_LEAST_ROUNDS: Final = 6
_MOST_ROUNDS: Final = 40


@dataclass(slots=True)
class TuningOutcome:
    """The result of a search.

    Attributes:
        winner: None: the defaults are best.
        standings: all candidates, also those that were not measured for lack of time.
        base: the defaults.
    """

    winner: CandidateStanding | None
    base: CandidateStanding
    standings: list[CandidateStanding] = field(default_factory=list)


class Measuring(Protocol):
    """Measures candidates beside the defaults; see `calculators.llm.tuning.arena.Arena`."""

    @property
    def base(self) -> CandidateStanding: ...

    async def measure(
        self, standings: Sequence[CandidateStanding], rounds: int, until: float
    ) -> None: ...


class Tuner:
    """Searches the settings for one load within a budget of time."""

    def __init__(
        self,
        arena: Measuring,
        conditions: Conditions,
        budget: float,
        report: Callable[[str, Sequence[CandidateStanding]], None] = lambda stage, standings: None,
    ) -> None:
        """``budget``: seconds; ``report``: called with stage and candidates after each."""
        self._arena = arena
        self._conditions = conditions
        self._report = report
        self._start = monotonic()
        self._budget = budget

    async def search(self, candidates: Iterable[Candidate]) -> TuningOutcome:
        """Measure candidates with one change each, and then combinations of the best ones.

        Settings that are known to change answers compete only where the conditions allow it; else
        they are measured a little, to be shown.
        """
        singles = [CandidateStanding(each) for each in candidates]
        allowed = self._conditions.may_change_answers
        able = [each for each in singles if allowed or not each.candidate.changes_answers]
        shown = [each for each in singles if each not in able]
        finalists = await self._halve("single settings", able, self._until(_SINGLES))
        joint = [
            CandidateStanding(each)
            for each in combined(each.candidate for each in self._gains(able))
        ]
        if joint:
            runners = [*joint, *finalists[:1]]
            await self._halve("combined settings", runners, self._until(_COMBINED))
        if shown:
            await self._arena.measure(shown, _FIRST_ROUNDS, self._until(_SHOWN))
            self._report("settings that change answers", shown)
        competing = [*able, *joint]
        winner = await self._decide(competing)
        return TuningOutcome(winner, self._arena.base, [*competing, *shown])

    def _until(self, part: float) -> float:
        return self._start + part * self._budget

    def _gains(self, standings: Iterable[CandidateStanding]) -> list[CandidateStanding]:
        """Return the candidates that are probably faster than the defaults, best first."""
        return [
            each
            for each in best_first(standings)
            if not self._conditions.objection(each) and each.speed.median > 1 + LEAST_GAIN / 2
        ]

    async def _halve(
        self, stage: str, standings: Sequence[CandidateStanding], until: float
    ) -> list[CandidateStanding]:
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

    async def _decide(self, standings: Sequence[CandidateStanding]) -> CandidateStanding | None:
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


#: Called with a stage and its candidates whenever they were measured.
Report = Callable[[str, Sequence[CandidateStanding]], None]

#: The part of the budget that a round should take, and the least seconds.
_ROUND_PART: Final = 1 / 100
_SHORTEST_ROUND: Final = 0.3


class CannotTune(Exception):
    """The model cannot be measured; the text says why."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a search.

    Attributes:
        load: as it was run: with fewer tokens for a slow model, or one of small length.
        requests: answers of one round.
        discarded: rounds that did not count, as the machine was busy.
    """

    outcome: TuningOutcome
    load: TuningLoad
    requests: int
    discarded: int


async def tune(
    model: ModelToServe,
    given: Mapping[str, Any],
    load: TuningLoad,
    *,
    conditions: Conditions,
    budget: float,
    report: Report = lambda stage, standings: None,
) -> Tuned:
    """Measure settings within a budget.

    Args:
        given: options of the task ``text_generation``, by field; they are not varied. A draft model
            is tried.
        budget: seconds for measurements, after the model was loaded for the first time.

    Raises:
        CannotTune: the model cannot be loaded, or is not one of text alone.
        TaskError: an option has an invalid value.
    """
    seconds = max(_SHORTEST_ROUND, budget * _ROUND_PART)
    with tempfile.TemporaryDirectory(prefix="graphrt-tune-") as folder:
        cache = ModelCache(Path(folder))
        try:
            async with open_arena(model, given, load, seconds, cache) as arena:
                tuner = Tuner(arena, conditions, budget, report)
                is_on_cpu = given.get("target_device", "") in ("", "CPU")
                outcome = await tuner.search(single_changes(given, is_on_cpu=is_on_cpu))
                return Tuned(outcome, arena.load, arena.requests, arena.discarded)
        except (ResourceError, LoadError) as error:
            raise CannotTune(f"the model cannot be loaded: {error}") from None
        except RequestError as error:
            raise CannotTune(f"the model does not answer: {error}") from None


@asynccontextmanager
async def open_arena(
    model: ModelToServe,
    given: Mapping[str, Any],
    load: TuningLoad,
    round_seconds: float,
    cache: ModelCache,
) -> AsyncIterator[Arena]:
    """Load a model with its default settings, to be measured with others.

    Args:
        cache: keeps a GGUF file's converted form, so that it is converted once for all candidates.

    Raises:
        CannotTune, TaskError: as `tune` does.
        ResourceError, LoadError: the model cannot be loaded.
    """
    node_options(model, given)  # refuses a draft model that cannot be used
    options = node_options(model, Candidate().options(given))
    kind = options.engine.kind
    if kind.sees_images or not kind.batches:
        raise CannotTune(
            f"its pipeline is {options.engine.pipeline_type}: only LM_CB, text with continuous "
            "batching, can be measured"
        )
    source = await find_source(options, cache, "tune", LoadProgress())
    prompts = PromptProcess(str(source.path), name="tune")

    def settings_of(candidate: Candidate) -> EngineSettings:
        engine = node_options(model, candidate.options(given)).engine
        return msgspec.structs.replace(engine, model_path=str(source.path))

    try:
        ready = await prompts.start()
        maker = PromptMaker(prompts, has_template=not ready.template_problem)
        await maker.start()
        async with Arena(settings_of, maker, load.within(_length(options)), round_seconds) as arena:
            yield arena
    finally:
        await prompts.close()
        source.close()


def node_options(model: ModelToServe, options: Mapping[str, Any]) -> NodeOptions:
    """Return the checked options of the graph that options of the task make.

    Raises:
        ResourceError, TaskError: one cannot be used.
    """
    config = parse_graph_text(TextGeneration(**options).graph(model))
    directory = model.path if model.path.is_dir() else model.path.parent
    return read_options(
        find_options(config.node[0], messages.LLMCalculatorOptions), ResourceSettings(directory)
    )


def _length(options: NodeOptions) -> int | None:
    return read_model_length(options.model_path)
