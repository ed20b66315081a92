"""The engine's inner loop: messages in, the outcome of a step out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from calculators.llm.engine import core as core_module
from calculators.llm.engine.core import EngineCore
from calculators.llm.engine.messages import (
    Add,
    CancelGeneration,
    FailedGeneration,
    Metrics,
    NewTokens,
    Step,
)
from calculators.llm.engine.settings import GenerationSettings
from tests.calculators.llm.demo_model import ids_of
from tests.calculators.llm.engine.scripted_pipeline import BREAKING, REFUSED, ScriptedPipeline

PROMPT = ids_of(1, 2)


def add(request_id: int, *, prompt: bytes = PROMPT, tokens: int = 3) -> Add:
    return Add(request_id, prompt, GenerationSettings(max_new_tokens=tokens))


def steps_of(core: EngineCore, *, most: int = 50) -> list[Step | Metrics]:
    """Return all outputs until there is no work left."""
    outputs: list[Step | Metrics] = []
    while core.has_work:
        assert most, "it goes on and on"
        most -= 1
        outputs += core.step()
    return outputs


def tokens_of(outputs: Sequence[Step | Metrics], request_id: int) -> list[NewTokens]:
    return [
        tokens
        for output in outputs
        if isinstance(output, Step)
        for tokens in output.tokens
        if tokens.request_id == request_id
    ]


def test_without_requests_there_is_nothing_to_do() -> None:
    assert not EngineCore(ScriptedPipeline()).has_work


def test_requests_of_one_step_share_a_message() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1, tokens=2))
    core.handle(add(2, tokens=3))
    outputs = steps_of(core)
    steps = [output for output in outputs if isinstance(output, Step)]
    assert [len(step.tokens) for step in steps] == [2, 2, 1]
    assert [each.token_ids for each in tokens_of(outputs, 2)] == [[0], [1], [2]]
    assert [each.finish_reason for each in tokens_of(outputs, 2)] == [None, None, "length"]


def test_a_refused_request_is_reported_and_disturbs_no_other() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1))
    core.handle(add(2, prompt=REFUSED))
    outputs = steps_of(core)
    assert next(output.failed for output in outputs if isinstance(output, Step)) == [
        FailedGeneration(2, "such a prompt is not taken")
    ]
    assert len(tokens_of(outputs, 1)) == 3


def test_a_refused_request_alone_is_reported_without_a_step() -> None:
    pipeline = ScriptedPipeline()
    core = EngineCore(pipeline)
    core.handle(add(2, prompt=REFUSED))
    assert core.has_work
    outputs = steps_of(core)
    assert outputs[0] == Step([], [FailedGeneration(2, "such a prompt is not taken")])
    assert pipeline.steps == 0


def test_nothing_is_reported_for_a_cancelled_request() -> None:
    pipeline = ScriptedPipeline()
    core = EngineCore(pipeline)
    core.handle(add(1, tokens=100))
    core.handle(add(2))
    list(core.step())
    core.handle(CancelGeneration(1))
    outputs = steps_of(core)
    assert tokens_of(outputs, 1) == []
    assert len(tokens_of(outputs, 2)) == 2
    assert pipeline.cancelled == [1]


def test_cancelling_an_unknown_request_does_nothing() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(CancelGeneration(5))
    assert not [output for output in steps_of(core) if isinstance(output, Step) and output.tokens]


def test_metrics_are_sent_when_the_work_has_ended() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1))
    outputs = steps_of(core)
    last = outputs[-1]
    assert isinstance(last, Metrics)
    assert (last.running, last.cache_usage, last.steps) == (0, 0.0, 3)


def test_metrics_are_sent_at_once_after_a_cancellation() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1, tokens=100))
    list(core.step())
    core.handle(CancelGeneration(1))
    outputs = list(core.step())
    assert isinstance(outputs[-1], Metrics)
    assert outputs[-1].running == 0
    assert not core.has_work


def test_metrics_are_sent_between_steps_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("calculators.llm.engine.core.time.monotonic", lambda: now)
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1, tokens=100))

    def has_metrics() -> bool:
        return any(isinstance(output, Metrics) for output in core.step())

    assert has_metrics()
    assert not has_metrics()
    now += 0.9 * core_module.METRICS_PERIOD
    assert not has_metrics()
    now += 0.2 * core_module.METRICS_PERIOD
    assert has_metrics()
    assert not has_metrics()


def test_an_exception_of_the_pipeline_is_raised() -> None:
    core = EngineCore(ScriptedPipeline())
    core.handle(add(1, prompt=BREAKING))
    with pytest.raises(RuntimeError, match="broke"):
        steps_of(core)
