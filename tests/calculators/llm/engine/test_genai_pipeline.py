"""openvino-genai as a `Pipeline`: behaviour that is not obvious."""

from __future__ import annotations

from typing import Any

import openvino_genai as genai
import pytest

from calculators.llm.engine import genai_pipeline
from calculators.llm.engine.core import GenerationRefused, Pipeline
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.library_config import generation_config
from calculators.llm.engine.messages import Add, NewTokens
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.engine.engines import ENDLESS, PROMPT, part
from tests.calculators.llm.engine.pipeline_apart import PipelineApart


@pytest.fixture(scope="module")
def pipeline() -> GenaiPipeline:
    return GenaiPipeline(EngineSettings(model_path=str(DEMO), device="CPU"))


@pytest.fixture(scope="module")
def small_cache(in_process_engine: None) -> PipelineApart:
    """Open a pipeline whose cache has room for 64 tokens."""
    return PipelineApart(_with_small_cache)


def _with_small_cache() -> GenaiPipeline:
    def config(settings: EngineSettings) -> Any:
        made = genai.SchedulerConfig()
        made.num_kv_blocks = 2
        return made

    # The process is that of the pipeline alone.
    pytest.MonkeyPatch().setattr(genai_pipeline, "scheduler_config", config)
    return GenaiPipeline(EngineSettings(model_path=str(DEMO), device="CPU"))


def run(pipeline: Pipeline, *, most: int = 500) -> list[NewTokens]:
    gained: list[NewTokens] = []
    while pipeline.has_work:
        assert most, "it goes on and on"
        most -= 1
        for tokens in pipeline.step():
            assert isinstance(tokens, NewTokens)
            gained.append(tokens)
    return gained


def ends(gained: list[NewTokens], request_id: int) -> list[tuple[int, str]]:
    return [
        (tokens.sequence, tokens.finish_reason)
        for tokens in gained
        if tokens.request_id == request_id and tokens.finish_reason is not None
    ]


def test_a_full_cache_ends_a_generation(small_cache: PipelineApart) -> None:
    small_cache.add(Add(1, PROMPT, part(ENDLESS).settings))
    gained = run(small_cache)
    assert ends(gained, 1) == [(0, "cache")]
    assert sum(len(tokens.token_ids) for tokens in gained) > 20


def test_tokens_held_back_when_the_cache_is_full_are_reported(small_cache: PipelineApart) -> None:
    settings = part(ENDLESS).settings
    small_cache.add(Add(1, PROMPT, settings))
    at_once = run(small_cache)
    small_cache.add(Add(2, PROMPT, settings))
    late: list[NewTokens] = []
    while small_cache.has_work:
        for tokens in small_cache.step(reports_all=False):
            assert isinstance(tokens, NewTokens)
            late.append(tokens)
    assert ends(late, 2) == [(0, "cache")]
    assert [each for tokens in late for each in tokens.token_ids] == [
        each for tokens in at_once for each in tokens.token_ids
    ]


def test_a_full_cache_ends_every_beam(small_cache: PipelineApart) -> None:
    small_cache.add(Add(1, PROMPT, part(ENDLESS, choices=3, beams=4).settings))
    assert ends(run(small_cache), 1) == [(0, "cache"), (1, "cache"), (2, "cache")]


def test_a_prompt_beyond_the_cache_ends_at_once(small_cache: PipelineApart) -> None:
    small_cache.add(Add(1, PROMPT * 40, part(5).settings))
    gained = run(small_cache)
    assert ends(gained, 1) == [(0, "cache")]
    small_cache.add(Add(2, PROMPT, part(5).settings))
    assert ends(run(small_cache), 2) == [(0, "length")]


def test_a_cancellation_returns_the_librarys_cache(pipeline: GenaiPipeline) -> None:
    pipeline.add(Add(1, PROMPT, part(ENDLESS).settings))
    for _ in range(40):
        pipeline.step()
    assert pipeline.metrics().running == 1
    assert pipeline.metrics().cache_usage > 0
    held = pipeline.metrics().cache_bytes
    pipeline.cancel(1)
    assert not pipeline.has_work
    # The count is updated by the next step.
    pipeline._pipeline.step()
    assert pipeline._pipeline.get_metrics().cache_usage == 0
    metrics = pipeline.metrics()
    assert (metrics.running, metrics.waiting, metrics.cache_usage) == (0, 0, 0)
    assert metrics.cache_bytes == held > 0


def test_a_request_waits_until_its_first_token(pipeline: GenaiPipeline) -> None:
    for number in range(3):
        pipeline.add(Add(number, PROMPT, part(3).settings))
    assert (pipeline.metrics().running, pipeline.metrics().waiting) == (0, 3)
    pipeline.step()
    assert (pipeline.metrics().running, pipeline.metrics().waiting) == (3, 0)
    run(pipeline)


def test_tokens_reported_late_are_the_same_tokens(pipeline: GenaiPipeline) -> None:
    settings = part(23, logprobs=True).settings
    pipeline.add(Add(1, PROMPT, settings))
    at_once = run(pipeline)
    assert [len(tokens.token_ids) for tokens in at_once] == [1] * 23
    pipeline.add(Add(2, PROMPT, settings))
    late = [pipeline.step(reports_all=number % 10 == 9) for number in range(23)]
    assert [len(gained[0].token_ids) if gained else 0 for gained in late] == [
        *(1, 0, 0, 0, 0, 0, 0, 0, 0, 9),
        *(0, 0, 0, 0, 0, 0, 0, 0, 0, 10),
        *(0, 0, 3),
    ]
    assert not pipeline.has_work
    for field in ("token_ids", "logprobs"):
        assert [each for tokens in at_once for each in getattr(tokens, field)] == [
            each for gained in late for tokens in gained for each in getattr(tokens, field)
        ]
    assert late[-1][0].finish_reason == "length"


def test_a_refused_request_leaves_nothing(pipeline: GenaiPipeline) -> None:
    with pytest.raises(GenerationRefused) as caught:
        pipeline.add(Add(1, b"", part(3).settings))
    assert ".cpp" not in str(caught.value)
    assert not pipeline.has_work
    pipeline.add(Add(1, PROMPT, part(3).settings))
    assert ends(run(pipeline), 1) == [(0, "length")]


def test_settings_reach_the_library() -> None:
    given: dict[str, Any] = {
        "max_new_tokens": 7,
        "min_new_tokens": 2,
        "ignore_eos": True,
        "do_sample": True,
        "top_k": 5,
        "rng_seed": 2**32 - 1,
        "num_beams": 1,
        "num_return_sequences": 1,
        "echo": True,
    }
    floats: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.75,
        "min_p": 0.25,
        "repetition_penalty": 1.5,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "length_penalty": 2.0,
    }
    config = generation_config(
        GenerationSettings(
            **given, **floats, stop_strings=("a", "b"), stop_token_ids=(3, 4), logprobs=True
        )
    )
    for name, value in {**given, **floats}.items():
        assert getattr(config, name) == value, name
    assert config.stop_strings == {"a", "b"}
    assert config.include_stop_str_in_output
    assert config.stop_token_ids == {3, 4}
    assert config.logprobs == 1
    assert not config.apply_chat_template


def test_missing_settings_are_the_librarys_defaults() -> None:
    config, default = generation_config(GenerationSettings()), genai.GenerationConfig()
    for name in ("max_new_tokens", "temperature", "top_p", "top_k", "rng_seed", "length_penalty"):
        assert getattr(config, name) == getattr(default, name), name
    assert config.logprobs == 0
    assert config.stop_strings == set()


@pytest.mark.parametrize(
    ("error", "lacks_memory"),
    [
        (MemoryError("std::bad_alloc"), True),
        (RuntimeError("Exception from here.cpp:1: std::bad_alloc"), True),
        (ValueError("no such thing"), False),
    ],
)
def test_memory_that_is_missing_is_not_the_requests_fault(
    pipeline: GenaiPipeline,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    lacks_memory: bool,
) -> None:
    def fail(_: Add) -> Any:
        raise error

    monkeypatch.setattr(pipeline, "_handle_of", fail)
    with pytest.raises(GenerationRefused) as caught:
        pipeline.add(Add(1, PROMPT, part(ENDLESS).settings))
    assert caught.value.lacks_memory is lacks_memory
    assert not pipeline.has_work
