"""Places of an engine: one client cannot have all of them, and turns go round."""

from __future__ import annotations

from itertools import count

import pytest

from calculators.kit.requests.client_identity import ClientIdentity
from calculators.llm.engine.admission import Admission, CacheCapacity
from calculators.llm.engine.messages import VERSION, Add, EngineReady, FailedGeneration
from calculators.llm.engine.settings import GenerationSettings
from tests.calculators.llm.demo_model import ids_of
from tests.calculators.llm.engine.scripted_pipeline import REFUSED, ScriptedPipeline

ANN, BOB, EVE = (ClientIdentity(name, "1") for name in ("ann", "bob", "eve"))


class Library(ScriptedPipeline):
    def ready(self) -> EngineReady:
        return EngineReady(VERSION, "CPU", "scripted", 0.0)

    def select(self, adapter: str) -> None:
        raise AssertionError


class Bench:
    """Requests to a pipeline with sixteen places, two of which are kept."""

    def __init__(self, places: int = 16, cache: CacheCapacity | None = None) -> None:
        self.library = Library()
        self.admission = Admission(self.library, places, step_tokens=32, cache=cache)
        self._ids = count(1)

    def add(
        self,
        client: ClientIdentity,
        times: int = 1,
        *,
        tokens: int = 3,
        group: int | None = None,
        prompt: bytes = ids_of(1, 2, 3),
        beams: int = 1,
        results: int = 1,
    ) -> list[int]:
        ids = [next(self._ids) for _ in range(times)]
        for each in ids:
            self.admission.add(
                Add(
                    each,
                    prompt,
                    GenerationSettings(
                        max_new_tokens=tokens, num_beams=beams, num_return_sequences=results
                    ),
                    group=each if group is None else group,
                    client=client,
                )
            )
        return ids

    @property
    def running(self) -> list[int]:
        return list(self.library.running)

    def begun_by(self, *ids: int) -> bool:
        return set(ids) <= set(self.running)

    def finish(self) -> list[int]:
        """Step until nothing is left; return the requests in the order of their ends."""
        ended: list[int] = []
        while self.admission.has_work:
            assert self.admission.has_news
            ended += [
                each.request_id
                for each in self.admission.step()
                if isinstance(each, FailedGeneration) or each.finish_reason is not None
            ]
        assert self.admission.metrics().waiting == 0
        return ended


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_places_are_kept_for_a_client_that_has_none(bench: Bench) -> None:
    hog = bench.add(ANN, 40)
    assert bench.running == hog[:14]
    assert bench.admission.metrics().waiting == 26
    (first,) = bench.add(BOB)
    bench.admission.step()
    assert bench.begun_by(first)
    (second,) = bench.add(EVE)
    bench.admission.step()
    assert bench.begun_by(second)
    assert len(bench.running) == 16
    assert sorted(bench.finish()) == [*hog, first, second]


def test_a_connection_that_has_none_gets_half_of_them(bench: Bench) -> None:
    hog = bench.add(ANN, 40)
    (other,) = bench.add(ClientIdentity("ann", "2"))
    bench.admission.step()
    assert bench.running == [*hog[:14], other]
    bench.add(ClientIdentity("ann", "3"))
    bench.admission.step()
    assert len(bench.running) == 15
    (stranger,) = bench.add(BOB)
    bench.admission.step()
    assert bench.begun_by(stranger)


def test_a_short_answer_of_a_new_connection_does_not_wait_for_long_ones_of_others(
    bench: Bench,
) -> None:
    hogs = [bench.add(ClientIdentity("ann", str(n)), tokens=2000)[0] for n in range(40)]
    bench.admission.step()
    assert bench.running == hogs[:14]
    (other,) = bench.add(ClientIdentity("ann", "new"))
    bench.admission.step()
    assert bench.begun_by(other)


def test_the_oldest_work_of_a_client_does_not_keep_its_connections_from_their_places(
    bench: Bench,
) -> None:
    bench.add(ANN, 14, tokens=1)
    bench.add(ANN, 7, tokens=1)
    bench.add(ANN, 30)
    bench.admission.step()
    bench.admission.step()
    (other,) = bench.add(ClientIdentity("ann", "2"))
    bench.admission.step()
    assert bench.begun_by(other)


def test_prompts_of_a_few_steps_are_in_the_library_and_the_others_wait_for_turns(
    bench: Bench,
) -> None:
    hog = bench.add(ANN, 8, prompt=ids_of(*range(60)))
    assert bench.running == hog[:2]
    (other,) = bench.add(BOB, prompt=ids_of(*range(60)))
    bench.admission.step()
    bench.admission.step()
    assert bench.running == [*hog[:2], other, hog[2]]
    assert sorted(bench.finish()) == [*hog, other]
    # A prompt that is longer runs alone.
    bench.add(ANN, 2, prompt=ids_of(*range(600)))
    assert len(bench.running) == 1
    bench.finish()


def test_places_that_become_free_go_round(bench: Bench) -> None:
    hog = bench.add(ANN, 40, tokens=2)
    others = bench.add(BOB, 10, tokens=9)
    bench.admission.step()
    assert bench.begun_by(others[0])
    bench.admission.step()  # ends what the hog runs
    bench.admission.step()
    assert [sum(each in part for each in bench.running) for part in (hog, others)] == [7, 7]
    assert sorted(bench.finish()) == sorted([*hog[14:], *others])


def test_the_first_choices_of_answers_come_before_the_second_ones_of_others(bench: Bench) -> None:
    unknown = ClientIdentity("ann")
    bench.add(unknown, 14, tokens=1)
    many = bench.add(unknown, 16, group=100, tokens=1)
    (single,) = bench.add(unknown, tokens=1)
    ended = bench.finish()
    assert ended.index(single) < ended.index(many[1])


def test_a_request_of_several_sequences_takes_as_many_places(bench: Bench) -> None:
    hog = bench.add(ANN, 3, beams=6, results=2)
    assert bench.running == hog[:2]
    (large,) = bench.add(BOB, beams=6)
    small = bench.add(ANN, 4)
    (new,) = bench.add(EVE)
    bench.admission.step()
    # What is free is collected for those who waited longer; the kept places are not.
    assert bench.running == [*hog[:2], new]
    assert set(bench.finish()) >= {large, *small, new}


def test_a_request_of_more_sequences_than_there_are_places_runs_alone(bench: Bench) -> None:
    (large,) = bench.add(ANN, beams=40)
    (next_one,) = bench.add(BOB)
    assert bench.running == [large]
    assert bench.finish() == [large, next_one]


def test_a_client_that_is_alone_may_have_all_of_a_few_places() -> None:
    few = Bench(places=2)
    asked = few.add(ANN, 5)
    assert few.running == asked[:2]


def test_cancelled_requests_give_their_places_back(bench: Bench) -> None:
    hog = bench.add(ANN, 20)
    for each in (*hog[:10], *hog[15:]):
        bench.admission.cancel(each)
    bench.admission.step()
    assert bench.running == hog[10:15]
    assert bench.finish() == hog[10:15]
    again = bench.add(ANN, 20)
    assert bench.running == again[:14]


def test_a_waiting_request_that_the_library_refuses_fails_alone(bench: Bench) -> None:
    bench.add(ANN, 14, tokens=1)
    bench.add(ANN, 14, prompt=REFUSED)
    (last,) = bench.add(ANN)
    assert last in bench.finish()
    assert bench.running == []
    assert len(bench.add(ANN, 14)) == len(bench.running)


def test_reserved_tokens_of_a_cache_are_kept_in_the_same_way() -> None:
    bench = Bench(cache=CacheCapacity(tokens=32 * 32, block=32, is_reserved=True))
    hog = bench.add(ANN, 12, tokens=90)  # 96 tokens each
    assert bench.running == hog[:9]
    (other,) = bench.add(BOB, tokens=90)
    bench.admission.step()
    assert bench.begun_by(other)
