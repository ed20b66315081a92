"""Completions with ``echo`` at a model that keeps the beginnings of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.requests.http_payload import RequestError
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_runs import COMPLETIONS, Asking, text_of
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.conditions import soon

PROMPT = "A packet has a timestamp. " * 12


@pytest.fixture(scope="module")
def caching(in_process_engine: None, runner: asyncio.Runner) -> Iterator[Asking]:
    text = with_options('models_path: "./" enable_prefix_caching: true cache_size: 1')
    resources = runner.run(soon(resources_of(text, DEMO)))
    yield Asking(runner, plan_of(text), resources)
    runner.run(resources.close())


@pytest.mark.parametrize(
    ("stream", "more"), [(False, {}), (True, {}), (False, {"n": 2}), (False, {"best_of": 2})]
)
def test_a_prompt_from_the_cache_is_echoed_whole(
    caching: Asking, stream: bool, more: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 6, **more}
    plain = caching(COMPLETIONS, **asked)
    for _ in range(2):
        answered = caching(COMPLETIONS, echo=True, stream=stream, **asked)
        assert text_of(answered) == PROMPT + text_of(plain)
        assert stream or answered.body["usage"] == plain.body["usage"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_alone_is_echoed_whole(caching: Asking, stream: bool) -> None:
    for _ in range(2):
        answered = caching(COMPLETIONS, prompt=PROMPT, echo=True, max_tokens=0, stream=stream)
        assert text_of(answered) == PROMPT
        if not stream:
            assert answered.body["usage"]["completion_tokens"] == 0
            assert answered.body["choices"][0]["finish_reason"] == "length"


def test_its_log_probabilities_are_refused(caching: Asking) -> None:
    with pytest.raises(RequestError, match="enable_prefix_caching") as raised:
        caching(COMPLETIONS, prompt=PROMPT, echo=True, logprobs=1)
    assert raised.value.param == "logprobs"
    (choice,) = caching(COMPLETIONS, prompt=PROMPT, logprobs=1, max_tokens=3).body["choices"]
    assert len(choice["logprobs"]["tokens"]) == 3
