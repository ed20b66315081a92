"""Turns of requests with several adapters over a pipeline that applies one at a time."""

from __future__ import annotations

from calculators.llm.engine.messages import VERSION, Add, EngineReady, FailedGeneration, NewTokens
from calculators.llm.engine.pipelines import JOINING_SECONDS, AdapterScheduler
from calculators.llm.engine.settings import GenerationSettings
from tests.calculators.llm.demo_model import ids_of
from tests.calculators.llm.engine.scripted_pipeline import REFUSED, ScriptedPipeline

PROMPT = ids_of(1, 2, 3)


class Adapted(ScriptedPipeline):
    """Pipeline that records which adapter was applied when a request ran."""

    def __init__(self) -> None:
        super().__init__()
        self.adapter = ""
        self.selected: list[str] = []

    def ready(self) -> EngineReady:
        return EngineReady(VERSION, "CPU", "scripted", 0.0)

    def select(self, adapter: str) -> None:
        assert not self.running, "an adapter is only selected when nothing runs"
        self.adapter = adapter
        self.selected.append(adapter)

    def step(self, *, reports_all: bool = True) -> list[NewTokens]:
        assert {settings.adapter for _, settings in self.running.values()} == {self.adapter}
        return super().step(reports_all=reports_all)


class Bench:
    """Turns with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pipeline = Adapted()
        self.turns = AdapterScheduler(self.pipeline, lambda: self.now)
        self._last = 0

    def add(self, adapter: str, tokens: int = 2, prompt: bytes = PROMPT) -> int:
        self._last += 1
        settings = GenerationSettings(max_new_tokens=tokens, adapter=adapter)
        self.turns.add(Add(self._last, prompt, settings))
        return self._last

    @property
    def running(self) -> list[int]:
        return list(self.pipeline.running)

    def ended(self) -> list[int]:
        """Run to the end; return the requests in the order in which they end."""
        ended: list[int] = []
        for _ in range(1000):
            if not self.turns.has_work:
                return ended
            assert self.turns.has_news, "it is asked to step whenever there is work"
            ended += [
                each.request_id
                for each in self.turns.step()
                if isinstance(each, FailedGeneration) or each.finish_reason is not None
            ]
        raise AssertionError("it goes on and on")


def test_requests_of_one_adapter_run_together() -> None:
    bench = Bench()
    requests = [bench.add("a"), bench.add("a"), bench.add("a")]
    assert bench.running == requests
    assert bench.ended() == requests
    assert bench.pipeline.selected == ["a"]


def test_requests_without_an_adapter_select_none() -> None:
    bench = Bench()
    bench.add("")
    bench.ended()
    assert bench.pipeline.selected == []


def test_requests_of_other_adapters_wait_for_the_turn_and_run_together() -> None:
    bench = Bench()
    first = bench.add("", tokens=5)
    b1, a1, b2, a2 = (bench.add(each) for each in "baba")
    assert bench.running == [first]
    assert bench.ended() == [first, b1, b2, a1, a2]
    assert bench.pipeline.selected == ["b", "a"]


def test_a_request_joins_the_current_turn() -> None:
    bench = Bench()
    first = bench.add("a", tokens=9)
    bench.add("b")
    bench.now += JOINING_SECONDS / 2
    joined = bench.add("a")
    assert bench.running == [first, joined]


def test_no_request_joins_once_another_has_waited_long() -> None:
    bench = Bench()
    first = bench.add("a", tokens=9)
    waiting = bench.add("b")
    bench.now += JOINING_SECONDS
    late = bench.add("a")
    assert bench.running == [first]
    assert bench.ended() == [first, waiting, late]
    assert bench.pipeline.selected == ["a", "b", "a"]


def test_a_flood_for_one_adapter_does_not_starve_another() -> None:
    bench = Bench()
    bench.add("a", tokens=50)
    waiting = bench.add("b", tokens=1)
    for _ in range(100):
        bench.now += JOINING_SECONDS / 10
        bench.add("a", tokens=50)
        if any(each.request_id == waiting for each in bench.turns.step()):
            break
    else:
        raise AssertionError("the request for b never had its turn")


def test_a_waiting_request_can_be_cancelled() -> None:
    bench = Bench()
    first = bench.add("a")
    gone, stays = bench.add("b"), bench.add("b")
    alone = bench.add("c")
    bench.turns.cancel(gone)
    bench.turns.cancel(alone)
    assert bench.ended() == [first, stays]
    assert bench.pipeline.selected == ["a", "b"]
    assert bench.pipeline.cancelled == []


def test_cancelling_the_last_request_of_a_turn_begins_the_next() -> None:
    bench = Bench()
    first = bench.add("a", tokens=1000)
    second = bench.add("b")
    bench.turns.cancel(first)
    assert bench.pipeline.cancelled == [first]
    assert bench.ended() == [second]


def test_a_request_that_is_refused_in_its_turn_fails_alone() -> None:
    bench = Bench()
    bench.add("a")
    refused, fine = bench.add("b", prompt=REFUSED), bench.add("b")
    assert bench.ended()[1:] == [refused, fine]


def test_waiting_requests_are_counted() -> None:
    bench = Bench()
    bench.add("a")
    bench.add("b")
    bench.add("c")
    metrics = bench.turns.metrics()
    assert (metrics.running, metrics.waiting) == (1, 2)
