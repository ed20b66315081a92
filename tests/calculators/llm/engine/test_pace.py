"""The pace at which tokens of streams are reported to the server."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from calculators.llm.engine import core as core_module
from calculators.llm.engine.core import LONGEST, EngineCore, StepCoalescer
from calculators.llm.engine.messages import Add, CancelGeneration, Metrics, NewTokens, Step
from calculators.llm.engine.settings import GenerationSettings
from tests.calculators.llm.demo_model import ids_of
from tests.calculators.llm.engine.scripted_pipeline import ScriptedPipeline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def due_steps(pace: StepCoalescer, clock: Clock, seconds: float, count: int) -> list[int]:
    """Return which of ``count`` steps report, each taking so many seconds."""
    due = []
    for number in range(count):
        if pace.is_due():
            due.append(number)
        clock.now += seconds
    return due


def streams(count: int) -> list[NewTokens]:
    return [NewTokens(stream, 0, [1]) for stream in range(count)]


def test_without_a_pace_every_step_is_due() -> None:
    clock = Clock()
    pace = StepCoalescer(0.0, clock)
    pace.note(streams(100))
    assert due_steps(pace, clock, 0.0, 5) == [0, 1, 2, 3, 4]


def test_slow_steps_of_one_stream_are_all_reported() -> None:
    clock = Clock()
    pace = StepCoalescer(0.004, clock)
    pace.note(streams(1))
    assert due_steps(pace, clock, 0.005, 4) == [0, 1, 2, 3]


def test_streams_of_fast_steps_wait_by_their_number() -> None:
    clock = Clock()
    pace = StepCoalescer(0.004, clock)
    pace.note(streams(2))
    assert due_steps(pace, clock, 0.0011, 17) == [0, 8, 16]


def test_no_token_waits_longer_than_the_longest_interval() -> None:
    clock = Clock()
    pace = StepCoalescer(0.004, clock)
    pace.note(streams(1000))
    assert due_steps(pace, clock, LONGEST / 4, 9) == [0, 4, 8]


def test_streams_that_have_ended_do_not_count() -> None:
    clock = Clock()
    pace = StepCoalescer(0.01, clock)
    pace.note(streams(4))
    pace.note([NewTokens(stream, 0, [2], [], "stop") for stream in range(3)])
    assert due_steps(pace, clock, 0.006, 5) == [0, 2, 4]


def test_streams_that_were_cancelled_do_not_count() -> None:
    clock = Clock()
    pace = StepCoalescer(0.01, clock)
    pace.note([*streams(2), NewTokens(7, 0, [1]), NewTokens(7, 1, [1])])
    pace.forget(7)
    pace.forget(0)
    assert due_steps(pace, clock, 0.006, 5) == [0, 2, 4]


class PacedCore:
    """Core whose clock moves by a millisecond with each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds_per_stream: float) -> None:
        self.clock = Clock()
        monkeypatch.setattr(
            core_module, "StepCoalescer", lambda seconds: StepCoalescer(seconds, self.clock)
        )
        self.pipeline = ScriptedPipeline()
        self.core = EngineCore(self.pipeline, seconds_per_stream)

    def add(self, request_id: int, tokens: int) -> None:
        settings = GenerationSettings(max_new_tokens=tokens)
        self.core.handle(Add(request_id, ids_of(1), settings))

    def steps(self, count: int) -> list[list[tuple[int, list[int]]]]:
        """Return the tokens that each of so many steps reports; [] where it sends no `Step`."""
        told = []
        for _ in range(count):
            told.append(tokens_of(self.core.step()))
            self.clock.now += 0.001
        return told


def tokens_of(outputs: Iterable[Step | Metrics]) -> list[tuple[int, list[int]]]:
    return [
        (tokens.request_id, tokens.token_ids)
        for output in outputs
        if isinstance(output, Step)
        for tokens in output.tokens
    ]


def test_first_and_last_tokens_are_reported_at_once_and_others_at_the_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paced = PacedCore(monkeypatch, 0.0035)
    paced.add(1, tokens=7)
    assert paced.steps(7) == [
        [(1, [0])],
        [],
        [],
        [],
        [(1, [1, 2, 3, 4])],
        [],
        [(1, [5, 6])],
    ]
    assert not paced.core.has_work


def test_the_first_token_of_a_stream_does_not_wait_for_running_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paced = PacedCore(monkeypatch, 1.0)
    paced.add(1, tokens=100)
    paced.steps(3)
    paced.add(2, tokens=1)
    paced.add(3, tokens=100)
    assert paced.steps(2) == [[(2, [0]), (3, [0])], []]


def test_a_cancelled_request_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    paced = PacedCore(monkeypatch, 1.0)
    paced.add(1, tokens=100)
    paced.add(2, tokens=100)
    paced.steps(3)
    paced.core.handle(CancelGeneration(1))
    paced.clock.now += LONGEST
    assert paced.steps(1) == [[(2, [1, 2, 3])]]
