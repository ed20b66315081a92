"""The search for settings, on engines whose speeds are known."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import pytest

from calculators.llm.tuning.arena import CandidateStanding, Conditions, UsualTime, median_interval
from calculators.llm.tuning.candidates import Candidate, Change, combined, single_changes
from calculators.llm.tuning.trial import Round
from calculators.llm.tuning.tuning import Tuner, TuningOutcome

_ENDLESS = 1e6


class KnownEngines:
    """Rounds by known speeds, with noise of some per cent and a load that comes and goes."""

    def __init__(
        self,
        speeds: Mapping[str, float],
        *,
        seed: int = 0,
        first_tokens: Mapping[str, float] | None = None,
        different: Iterable[str] = (),
    ) -> None:
        self._speeds = speeds
        self._first_tokens = first_tokens or {}
        self._different = set(different)
        self._chance = random.Random(seed)
        self.base = CandidateStanding(Candidate())
        self.rounds = 0

    def speed(self, candidate: Candidate) -> float:
        product = 1.0
        for each in candidate.changes:
            product *= self._speeds[each.setting]
        return product

    async def measure(
        self, standings: Sequence[CandidateStanding], rounds: int, until: float
    ) -> None:
        for _ in range(rounds):
            busy = self._chance.uniform(1.0, 2.0)
            ours = Round(busy * self._noise(), 1.0, 100)
            for standing in standings:
                self.rounds += 1
                seconds = busy * self._noise() / self.speed(standing.candidate)
                first = self._first_tokens.get(standing.name, 1.0)
                standing.pairs.append((ours, Round(seconds, first, 100)))
                standing.compared_answers = 3
                standing.different_answers = 2 if standing.name in self._different else 0

    def _noise(self) -> float:
        return self._chance.uniform(0.98, 1.02)


def change(setting: str, *, changes_answers: bool = False) -> Candidate:
    return Candidate((Change(setting, 1, changes_answers=changes_answers),))


def search(
    engines: KnownEngines, candidates: Iterable[Candidate], conditions: Conditions | None = None
) -> TuningOutcome:
    return asyncio.run(Tuner(engines, conditions or Conditions(), _ENDLESS).search(candidates))


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_within_3_percent_of_an_exhaustive_search(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(6)]
    speeds = {name: chance.choice([0.6, 0.9, 0.99, 1.0, 1.02, 1.1, 1.3]) for name in names}
    engines = KnownEngines(speeds, seed=seed)
    singles = [change(name) for name in names]
    # Settings multiply, so the best of all combinations is the product of all gains.
    best = max(
        engines.speed(Candidate(tuple(each.changes[0] for each in chosen)))
        for count in range(4)
        for chosen in combinations(singles, count)
    )
    outcome = search(engines, singles)
    found = 1.0 if outcome.winner is None else engines.speed(outcome.winner.candidate)
    assert found >= 0.96 * best
    assert engines.rounds < 250


def test_defaults_stay_where_nothing_is_faster() -> None:
    outcome = search(KnownEngines({"a": 1.0, "b": 0.8}), [change("a"), change("b")])
    assert outcome.winner is None


def test_settings_that_change_answers_are_shown_and_not_chosen() -> None:
    engines = KnownEngines({"known": 2.0, "seen": 1.5, "equal": 1.1}, different=["seen 1"])
    candidates = [change("known", changes_answers=True), change("seen"), change("equal")]
    outcome = search(engines, candidates)
    assert outcome.winner is not None
    assert outcome.winner.name == "equal 1"
    shown = {each.name: each for each in outcome.standings}
    assert shown["known 1"].is_measured
    assert shown["seen 1"].is_measured
    assert Conditions().objection(shown["known 1"]) == "changes answers"
    assert Conditions().objection(shown["seen 1"]) == "changes answers"


def test_settings_that_change_answers_compete_when_they_may() -> None:
    engines = KnownEngines({"known": 2.0, "equal": 1.1})
    candidates = [change("known", changes_answers=True), change("equal")]
    outcome = search(engines, candidates, Conditions(may_change_answers=True))
    assert outcome.winner is not None
    assert {each.setting for each in outcome.winner.candidate.changes} == {"known", "equal"}


def test_a_faster_setting_whose_first_token_comes_late_is_not_chosen() -> None:
    engines = KnownEngines({"a": 1.5, "b": 1.1}, first_tokens={"a 1": 2.0})
    outcome = search(engines, [change("a"), change("b")])
    assert outcome.winner is not None
    assert outcome.winner.name == "b 1"


def test_a_setting_that_cannot_be_loaded_is_left_out() -> None:
    class Broken(KnownEngines):
        async def measure(
            self, standings: Sequence[CandidateStanding], rounds: int, until: float
        ) -> None:
            for each in standings:
                if each.name == "bad 1":
                    each.failure = "no such property"
            await super().measure([each for each in standings if not each.failure], rounds, until)

    outcome = search(Broken({"good": 1.2, "bad": 9.0}), [change("bad"), change("good")])
    assert outcome.winner is not None
    assert outcome.winner.name == "good 1"


def test_given_options_are_kept_and_not_varied() -> None:
    given = {
        "max_num_batched_tokens": 512,
        "plugin_config": json.dumps({"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}),
    }
    candidates = single_changes(given, is_on_cpu=True)
    varied = {each.changes[0].setting for each in candidates}
    assert varied.isdisjoint({"max_num_batched_tokens", "NUM_STREAMS", "INFERENCE_NUM_THREADS"})
    options = Candidate((Change("A", 2, is_property=True),)).options(given)
    assert options["max_num_batched_tokens"] == 512
    assert json.loads(options["plugin_config"]) == {
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": 1,
        "A": 2,
    }


def test_a_draft_model_is_tried_and_never_together_with_look_up() -> None:
    candidates = single_changes({"draft_source_model": "draft"}, is_on_cpu=False)
    assert [each.name for each in candidates if each.changes_answers] == [
        "prompt_lookup true",
        "draft_source_model draft",
    ]
    assert "draft_source_model" not in Candidate().options({"draft_source_model": "draft"})
    assert not combined(each for each in candidates if each.changes_answers)


def test_the_interval_of_a_median_is_made_of_measured_values() -> None:
    assert median_interval([3.0]) == (3.0, 3.0, 3.0)
    assert median_interval([1.0, 2.0, 9.0]) == (1.0, 2.0, 9.0)
    # Of 20 values, 95 % lie between the sixth and the fifteenth (binomial distribution).
    assert median_interval(range(1, 21)) == (6, 10.5, 15)
    few, many = (median_interval([1 + n % 7 for n in range(count)]) for count in (7, 70))
    assert many.width < few.width


def test_rounds_count_when_the_first_ones_were_fast_and_not_when_something_else_computes() -> None:
    usual = UsualTime()
    # One engine alone, then others beside it, then somebody else for two rounds.
    seconds = [0.4, 0.4, 0.7, 0.7, 0.7, 0.7, 1.6, 1.4, 0.8]
    disturbed = [each for each in seconds if usual.is_disturbed(each)]
    assert disturbed == [1.6, 1.4]
