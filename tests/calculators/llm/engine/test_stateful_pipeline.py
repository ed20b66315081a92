"""One request at a time: the queue, the news, and failures of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Semaphore

import pytest

from calculators.llm.engine import core
from calculators.llm.engine.core import EngineCore, GenerationRefused
from calculators.llm.engine.messages import (
    Add,
    CancelGeneration,
    FailedGeneration,
    Metrics,
    NewTokens,
)
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.engine.stateful_pipeline import (
    PATIENCE,
    GenerationEnd,
    OnTokens,
    StatefulPipeline,
)
from calculators.llm.grammars.grammar import Grammar
from tests.calculators.llm.demo_model import ids_of
from tests.support import patience

SECONDS = patience.PATIENCE
#: Prompts: one at which the model fails, and one that breaks it.
FAILING = ids_of(500)
BREAKING = ids_of(666)


class ScriptedModel:
    """Model that gives the tokens 0, 1, 2, ...; each waits for a ``permit``."""

    device = "CPU"

    def __init__(self) -> None:
        self.permits = Semaphore(0)
        self.begun: list[int] = []
        self.has_begun = Event()
        self.compiled: list[Grammar] = []
        self.is_broken = False

    def check(self, settings: GenerationSettings) -> None:
        if settings.logprobs:
            raise GenerationRefused("no log-probabilities")

    def compile(self, grammar: Grammar) -> None:
        if "bad" in grammar.text:
            raise RuntimeError("such a grammar is none")
        self.compiled.append(grammar)

    def generate(self, request: Add, on_tokens: OnTokens) -> list[GenerationEnd]:
        self.begun.append(request.request_id)
        self.has_begun.set()
        if request.input_ids in (FAILING, BREAKING):
            self.is_broken = request.input_ids == BREAKING
            raise RuntimeError("Check 'x' failed at /src/a.cpp:3:\nit did not work")
        count = request.settings.max_new_tokens or 0
        if request.settings.num_beams > 1:
            assert self.permits.acquire(timeout=SECONDS)
            return [GenerationEnd([number], "length") for number in range(2)]
        for number in range(count):
            assert self.permits.acquire(timeout=SECONDS)
            if not on_tokens([number]):
                return [GenerationEnd([], "cache")]
        return [GenerationEnd([], "length")]

    def warm_up(self) -> None:
        if self.is_broken:
            raise RuntimeError("broken for good")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Pipe:
    """A pipeline, and its news."""

    def __init__(self) -> None:
        self.model = ScriptedModel()
        self.clock = Clock()
        self.wakes = Semaphore(0)
        self.pipeline = StatefulPipeline(lambda: self.model, self.wakes.release, self.clock)

    def add(self, request_id: int, tokens: int = 2, **more: object) -> None:
        prompt = more.pop("prompt", ids_of(7, 8))
        group = more.pop("group", request_id)
        settings = GenerationSettings(max_new_tokens=tokens, **more)  # type: ignore[arg-type]
        self.pipeline.add(Add(request_id, prompt, settings, group=group))  # type: ignore[arg-type]

    def news(
        self, is_enough: Callable[[list[NewTokens | FailedGeneration]], bool]
    ) -> list[NewTokens | FailedGeneration]:
        """Collect news until they are enough."""
        told: list[NewTokens | FailedGeneration] = []
        while not is_enough(told):
            assert self.wakes.acquire(timeout=SECONDS), told
            if self.pipeline.has_news:
                told += self.pipeline.step()
        return told

    def ends(self, *request_ids: int) -> list[NewTokens | FailedGeneration]:
        def all_ended(told: list[NewTokens | FailedGeneration]) -> bool:
            ended = [each.request_id for each in told if is_last(each)]
            return set(request_ids) <= set(ended)

        return self.news(all_ended)


def is_last(each: NewTokens | FailedGeneration) -> bool:
    return isinstance(each, FailedGeneration) or each.finish_reason is not None


def ids(told: list[NewTokens | FailedGeneration], request_id: int) -> list[int]:
    return [
        token
        for each in told
        if isinstance(each, NewTokens) and each.request_id == request_id
        for token in each.token_ids
    ]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    yield (made := Pipe())
    made.model.permits.release(1000)


def test_requests_are_generated_one_after_the_other(pipe: Pipe) -> None:
    for number in range(3):
        pipe.add(number)
    pipe.model.permits.release(6)
    told = pipe.ends(0, 1, 2)
    assert [ids(told, number) for number in range(3)] == [[0, 1]] * 3
    assert [each.request_id for each in told] == sorted(each.request_id for each in told)
    assert not pipe.pipeline.has_work


def test_tokens_are_reported_as_they_are_generated(pipe: Pipe) -> None:
    pipe.add(1, tokens=3)
    for number in range(3):
        pipe.model.permits.release()
        assert ids(pipe.news(bool), 1)[0] == number


def test_the_choices_of_an_answer_let_others_in_between(pipe: Pipe) -> None:
    for number in range(3):
        pipe.add(number, group=0)
    pipe.add(9)
    pipe.model.permits.release(8)
    pipe.ends(0, 1, 2, 9)
    assert pipe.model.begun == [0, 9, 1, 2]


def test_a_cancelled_request_gains_nothing_more_and_the_next_begins(pipe: Pipe) -> None:
    pipe.add(1, tokens=1000)
    pipe.add(2)
    pipe.model.permits.release()
    pipe.news(bool)
    pipe.pipeline.cancel(1)
    pipe.model.permits.release(
        3
    )  # one with which it learns of the cancellation, two for the next request
    told = pipe.ends(2)
    assert {each.request_id for each in told} == {2}
    assert ids(told, 2) == [0, 1]


def test_a_request_that_is_cancelled_while_it_waits_never_begins(pipe: Pipe) -> None:
    for number in range(3):
        pipe.add(number)
    pipe.pipeline.cancel(1)
    pipe.model.permits.release(4)
    pipe.ends(0, 2)
    assert pipe.model.begun == [0, 2]


def test_beams_are_reported_together_and_can_be_cancelled_before(pipe: Pipe) -> None:
    pipe.add(1, num_beams=2, num_return_sequences=2)
    pipe.model.permits.release()
    told = pipe.ends(1)
    assert told == [NewTokens(1, 0, [0], [], "length"), NewTokens(1, 1, [1], [], "length")]
    pipe.add(2, num_beams=2)
    assert pipe.model.has_begun.wait(SECONDS)
    pipe.pipeline.cancel(2)
    pipe.add(3)
    pipe.model.permits.release(3)
    assert {each.request_id for each in pipe.ends(3)} == {3}


def test_an_echo_begins_with_the_prompt(pipe: Pipe) -> None:
    pipe.model.permits.release(2)
    pipe.add(1, echo=True)
    assert ids(pipe.ends(1), 1) == [7, 8, 0, 1]
    pipe.add(2, tokens=0, echo=True)
    assert pipe.ends(2) == [NewTokens(2, 0, [7, 8], [], "length")]
    assert pipe.model.begun == [1]


def test_unsupported_requests_are_refused(pipe: Pipe) -> None:
    with pytest.raises(GenerationRefused, match="no log-probabilities"):
        pipe.add(1, logprobs=True)
    with pytest.raises(GenerationRefused, match="no tokens"):
        pipe.add(1, prompt=b"")
    assert not pipe.pipeline.has_work


def test_a_failure_ends_one_request_if_the_model_survives(pipe: Pipe) -> None:
    pipe.add(1, prompt=FAILING)
    pipe.add(2)
    pipe.model.permits.release(2)
    told = pipe.ends(1, 2)
    assert told[0] == FailedGeneration(1, "it did not work")
    assert ids(told, 2) == [0, 1]


def test_a_broken_model_ends_the_pipeline(pipe: Pipe) -> None:
    pipe.add(1, prompt=BREAKING)
    pipe.add(2)
    assert pipe.ends(1) == [FailedGeneration(1, "it did not work")]
    while not pipe.pipeline.has_news:
        assert pipe.wakes.acquire(timeout=SECONDS)
    with pytest.raises(RuntimeError, match="broken for good"):
        pipe.pipeline.step()
    assert pipe.model.begun == [1]


def test_a_grammar_is_compiled_before_its_request(pipe: Pipe) -> None:
    good, bad = Grammar("good"), Grammar("bad")
    pipe.add(1, grammar=bad)
    pipe.add(2, grammar=good)
    pipe.model.permits.release(2)
    told = pipe.ends(1, 2)
    assert told[0] == FailedGeneration(1, "the grammar cannot be used: such a grammar is none")
    assert pipe.model.compiled == [good]
    assert pipe.model.begun == [2]


def told_at_once(pipe: Pipe, *, reports_all: bool = False) -> list[NewTokens | FailedGeneration]:
    """Return the news of the next step, once there are any."""
    while not pipe.pipeline.has_news:
        assert pipe.wakes.acquire(timeout=SECONDS)
    return pipe.pipeline.step(reports_all=reports_all)


def test_tokens_between_the_first_and_the_last_wait_for_a_full_report(pipe: Pipe) -> None:
    pipe.add(1, tokens=5)
    pipe.model.permits.release()
    assert ids(told_at_once(pipe), 1) == [0]
    pipe.model.permits.release()
    assert told_at_once(pipe) == []
    assert not pipe.pipeline.has_news
    pipe.model.permits.release()
    assert ids(told_at_once(pipe, reports_all=True), 1) == [1, 2]
    pipe.model.permits.release(2)
    told: list[NewTokens | FailedGeneration] = []
    while not told:
        told = told_at_once(pipe)
    assert ids(told, 1) == [3, 4]
    assert is_last(told[-1])


def test_waiting_tokens_of_a_cancelled_request_are_not_reported(pipe: Pipe) -> None:
    pipe.add(1, tokens=5)
    pipe.add(2, tokens=1)
    pipe.model.permits.release()
    assert ids(told_at_once(pipe), 1) == [0]
    pipe.model.permits.release()
    assert told_at_once(pipe) == []
    pipe.pipeline.cancel(1)
    pipe.model.permits.release(2)
    assert {each.request_id for each in pipe.ends(2)} == {2}


def test_metrics_count_the_requests(pipe: Pipe) -> None:
    def figures() -> tuple[int, int]:
        metrics = pipe.pipeline.metrics()
        return metrics.running, metrics.waiting

    assert figures() == (0, 0)
    for number in range(3):
        pipe.add(number)
    assert figures() == (0, 3)
    pipe.model.permits.release()
    pipe.news(bool)
    assert figures() == (1, 2)
    pipe.model.permits.release(5)
    pipe.ends(0, 1, 2)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_the_last_metrics_are_of_an_idle_pipeline(pipe: Pipe, is_cancelled: bool) -> None:
    figures: list[Metrics] = []
    engine = EngineCore(pipe.pipeline)
    engine.handle(Add(1, ids_of(7), GenerationSettings(max_new_tokens=2)))
    assert pipe.model.has_begun.wait(SECONDS)
    if is_cancelled:
        engine.handle(CancelGeneration(1))
    pipe.model.permits.release(2)
    while engine.is_busy or engine.has_work:
        if not engine.has_work:
            assert pipe.wakes.acquire(timeout=SECONDS)
            continue
        figures += [each for each in engine.step() if isinstance(each, Metrics)]
    assert (figures[-1].running, figures[-1].waiting) == (0, 0)


def test_silence_before_the_first_token_counts_as_life_for_a_time(pipe: Pipe) -> None:
    pipe.add(1)
    assert pipe.model.has_begun.wait(SECONDS)
    assert not pipe.pipeline.has_news
    pipe.clock.now += core.SIGN_SECONDS
    assert pipe.pipeline.has_news
    assert pipe.pipeline.step() == []
    assert not pipe.pipeline.has_news
    pipe.clock.now += PATIENCE
    assert not pipe.pipeline.has_news


def test_silence_between_tokens_is_left_to_the_servers_watchdog(pipe: Pipe) -> None:
    pipe.add(1)
    pipe.model.permits.release()
    pipe.news(bool)
    pipe.clock.now += core.SIGN_SECONDS
    assert not pipe.pipeline.has_news
