"""Long prompts, long answers, and a full cache, as clients and metrics see them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import watch_engine
from calculators.llm.engine.messages import FailedGeneration, NewTokens
from calculators.llm.servable import LlmServable
from graph_runtime import Code, GraphResources
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.engine.cache_runs import open_engine
from tests.calculators.llm.engine.in_process_engine import InProcessEngine
from tests.calculators.llm.engine.pipeline_apart import PipelineApart
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, RESPONSES, Asking
from tests.calculators.llm.graph_texts import QUICKSTART, plan_of, resources_of, with_options
from tests.calculators.llm.test_engine_metrics import Board
from tests.support.conditions import soon

BLOCKS = 8
TOKENS = BLOCKS * 32
MESSAGES = "/v3/messages"
#: Length of the model.
LENGTH = 2048


def bodies(words: int, answer: int | None) -> dict[str, dict[str, Any]]:
    """Return bodies by path: a prompt of at least this many tokens, and at most ``answer`` more."""
    text = "hello " * words
    messages = [{"role": "user", "content": text}]
    return {
        COMPLETIONS: {"prompt": [5] * words, "max_tokens": answer, "ignore_eos": True},
        CHAT: {"messages": messages, "max_tokens": answer, "ignore_eos": True},
        MESSAGES: {"messages": messages, "max_tokens": answer},
        RESPONSES: {"input": text, "max_output_tokens": answer},
    }


def asked(uri: str, words: int, answer: int | None, **more: Any) -> dict[str, Any]:
    body = {"model": "demo", "temperature": 0} | bodies(words, answer)[uri] | more
    return {name: value for name, value in body.items() if value is not None}


FIELDS = {COMPLETIONS: "prompt", CHAT: "messages", MESSAGES: "messages", RESPONSES: "input"}


@pytest.fixture(scope="module")
def small(ask: Asking) -> Iterator[Asking]:
    """Client of the demo model with a cache of eight blocks."""
    pipeline = open_engine(blocks=BLOCKS)
    servable = copy.copy(ask.servable)
    servable.engine = InProcessEngine(pipeline)
    servable.limits = replace(servable.limits, cache=pipeline.ready().cache_tokens)
    resources = GraphResources((servable,), {"llm": {"LLMExecutor": servable}})
    yield Asking(ask.runner, plan_of(QUICKSTART), resources)
    ask.runner.run(servable.engine.close())


def refusal(ask: Asking, uri: str, body: dict[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        ask.runner.run(ask.answer(uri, body))
    assert ask.servable.engine.unfinished == 0
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("uri", FIELDS)
def test_a_prompt_longer_than_the_model_is_refused_with_both_numbers(
    uri: str, stream: bool, ask: Asking
) -> None:
    error = refusal(ask, uri, asked(uri, 3000, 10, stream=stream))
    assert (error.param, error.code) == (FIELDS[uri], Code.OUT_OF_RANGE)
    assert error.reason == "context_length_exceeded"
    numbers = [int(word) for word in str(error).replace(";", " ").split() if word.isdigit()]
    assert LENGTH in numbers
    assert max(numbers) >= 3000


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("uri", FIELDS)
def test_a_prompt_longer_than_the_cache_is_refused_with_both_numbers(
    uri: str, stream: bool, small: Asking
) -> None:
    error = refusal(small, uri, asked(uri, 300, 10, stream=stream))
    assert (error.param, error.code) == (FIELDS[uri], Code.OUT_OF_RANGE)
    assert error.reason == "context_length_exceeded"
    assert f"cache of this model holds {TOKENS} (cache_size)" in str(error)
    assert "prompt has 3" in str(error)


def reason_of(body: dict[str, Any]) -> str:
    return str(body["choices"][0]["finish_reason"])


@pytest.mark.parametrize("uri", [COMPLETIONS, CHAT])
def test_an_answer_that_fills_the_cache_ends_by_length(uri: str, small: Asking) -> None:
    board = Board()
    end = watch_engine(board, small.servable.engine)
    before = board.values("cache_full")[0]
    answered = small.runner.run(small.answer(uri, asked(uri, 100, 1500)))
    assert reason_of(answered.body) == "length"
    usage = answered.body["usage"]
    assert usage["total_tokens"] == TOKENS + 1
    assert board.values("cache_full") == [before + 1]
    end()


def test_a_stream_that_fills_the_cache_ends_by_length(small: Asking) -> None:
    answered = small.runner.run(
        small.answer(COMPLETIONS, asked(COMPLETIONS, 200, 500, stream=True))
    )
    reasons = [event["choices"][0]["finish_reason"] for event in answered.events]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) == {None}


def test_more_long_requests_than_fit_all_get_their_answers(
    small: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, used = Board(), [0.0]
    end = watch_engine(board, small.servable.engine)
    step = PipelineApart.step

    def noted_step(
        pipeline: PipelineApart, *, reports_all: bool = True
    ) -> Sequence[NewTokens | FailedGeneration]:
        told = step(pipeline, reports_all=reports_all)
        used.append(pipeline.metrics().cache_usage)
        return told

    monkeypatch.setattr(PipelineApart, "step", noted_step)

    async def ask_all() -> list[str]:
        tasks = [
            asyncio.ensure_future(small.answer(COMPLETIONS, asked(COMPLETIONS, 60, 90)))
            for _ in range(8)
        ]
        return [reason_of(answered.body) for answered in await asyncio.gather(*tasks)]

    assert small.runner.run(ask_all()) == ["length"] * 8
    assert max(used) > 0.9
    assert board.values("requests_running", "requests_waiting") == [0, 0]
    end()


@pytest.mark.parametrize("uri", [COMPLETIONS, CHAT])
def test_an_answer_ends_at_the_models_length(uri: str, ask: Asking) -> None:
    body = asked(uri, 1950, None)
    answered = ask.runner.run(ask.answer(uri, body)).body
    assert reason_of(answered) == "length"
    assert answered["usage"]["total_tokens"] == LENGTH


@pytest.mark.parametrize("limit", [20, 90])
def test_the_nodes_limit_applies_to_requests_without_one(limit: int, small: Asking) -> None:
    servable = copy.copy(small.servable)
    servable.limits = replace(
        servable.limits, request=replace(servable.limits.request, max_tokens_limit=limit)
    )
    resources = GraphResources((servable,), {"llm": {"LLMExecutor": servable}})
    limited = Asking(small.runner, plan_of(QUICKSTART), resources)
    answered = limited.runner.run(limited.answer(COMPLETIONS, asked(COMPLETIONS, 200, None))).body
    # The cache has room for 57.
    assert answered["usage"]["completion_tokens"] == min(limit, TOKENS - 200 + 1)
    error = refusal(limited, COMPLETIONS, asked(COMPLETIONS, 10, limit + 1))
    assert str(limit) in str(error)


def test_a_size_in_gigabytes_is_converted_to_tokens(runner: asyncio.Runner) -> None:
    text = with_options(
        'models_path: "./" device: "CPU" cache_size: 1'
        ' plugin_config: \'{"KV_CACHE_PRECISION": "u8"}\''
    )
    resources = runner.run(soon(resources_of(text, DEMO)))
    (servable,) = resources.resources
    assert isinstance(servable, LlmServable)
    # Blocks of 32 tokens, 20,480 bytes each.
    assert servable.limits.cache == 2**30 // 20_480 * 32
    runner.run(resources.close())
