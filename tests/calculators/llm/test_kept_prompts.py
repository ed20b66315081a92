"""A model that keeps the beginnings of prompts: ``echo``, and the count of what was kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Asking,
    text_of,
)
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.support.conditions import soon

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
        if not stream:
            usage = answered.body["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] - 33
            assert usage["total_tokens"] == plain.body["usage"]["total_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_alone_is_echoed_whole(caching: Asking, stream: bool) -> None:
    for _ in range(2):
        answered = caching(COMPLETIONS, prompt=PROMPT, echo=True, max_tokens=0, stream=stream)
        assert text_of(answered) == PROMPT
        if not stream:
            assert answered.body["usage"]["completion_tokens"] == 0
            assert answered.body["choices"][0]["finish_reason"] == "length"


def test_its_log_probabilities_are_those_of_an_engine_that_keeps_nothing(
    caching: Asking, runner: asyncio.Runner
) -> None:
    asked: dict[str, Any] = {"prompt": PROMPT, "echo": True, "logprobs": 1, "temperature": 0}
    resources = runner.run(soon(resources_of(with_options('models_path: "./"'), DEMO)))
    plain = Asking(runner, plan_of(with_options('models_path: "./"')), resources)
    wanted = [plain(COMPLETIONS, **asked, max_tokens=most).body for most in (0, 4)]
    runner.run(resources.close())

    # Twice: the prompt is kept by the engine that answers everything else.
    for _ in range(2):
        caching(COMPLETIONS, prompt=PROMPT, max_tokens=2)
        for most, body in zip((0, 4), wanted, strict=True):
            (found,) = caching(COMPLETIONS, **asked, max_tokens=most).body["choices"]
            (expected,) = body["choices"]
            assert found["text"] == expected["text"]
            assert found["logprobs"]["tokens"] == expected["logprobs"]["tokens"]
            for one, other in zip(
                found["logprobs"]["token_logprobs"],
                expected["logprobs"]["token_logprobs"],
                strict=True,
            ):
                assert one == (None if other is None else pytest.approx(other, abs=1e-3))
    (choice,) = caching(COMPLETIONS, prompt=PROMPT, logprobs=1, max_tokens=3).body["choices"]
    assert len(choice["logprobs"]["tokens"]) == 3


# The part of a prompt that was kept -------------------------------------------------------------


def cached(usage: dict[str, Any]) -> tuple[int, int]:
    """Return the tokens of a prompt, and those of them that were kept, of any API."""
    match usage:
        case {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": kept}}:
            return prompt, kept
        case {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": kept}}:
            return prompt, kept
        case {"input_tokens": rest, "cache_read_input_tokens": kept}:
            return rest + kept, kept
        case _:
            raise AssertionError(usage)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("uri", [CHAT, RESPONSES, MESSAGES])
def test_each_api_tells_which_part_of_a_prompt_was_kept(
    caching: Asking, uri: str, stream: bool
) -> None:
    question = f"{uri} {stream} {PROMPT}"
    asked: dict[str, Any] = {
        CHAT: {"messages": [{"role": "user", "content": question}], "max_tokens": 3},
        RESPONSES: {"input": question, "max_output_tokens": 3},
        MESSAGES: {"messages": [{"role": "user", "content": question}], "max_tokens": 3},
    }[uri]
    if stream and uri == CHAT:
        asked["stream_options"] = {"include_usage": True}

    def usage() -> dict[str, Any]:
        answered = caching(uri, stream=stream, **asked)
        if not stream:
            return answered.body["usage"]  # type: ignore[no-any-return]
        events = [
            json.loads(line.removeprefix("data: "))
            for line in "".join(answered.values).splitlines()
            if line.startswith("data: {")
        ]
        if uri == CHAT:
            return events[-1]["usage"]  # type: ignore[no-any-return]
        if uri == RESPONSES:
            return events[-1]["response"]["usage"]  # type: ignore[no-any-return]
        started = next(event for event in events if event["type"] == "message_start")
        return started["message"]["usage"]  # type: ignore[no-any-return]

    prompt, kept = cached(usage())
    assert kept < 32, "no more than the beginning of the template"
    assert prompt - 32 <= cached(usage())[1] < prompt


def test_choices_of_one_prompt_count_its_kept_part_once(caching: Asking) -> None:
    asked: dict[str, Any] = {"prompt": f"Once. {PROMPT}", "max_tokens": 2, "n": 3, "temperature": 1}
    caching(COMPLETIONS, **asked)
    prompt, kept = cached(caching(COMPLETIONS, **asked).body["usage"])
    assert prompt - 32 <= kept < prompt


def test_without_such_a_cache_nothing_is_told(ask: Asking) -> None:
    usage = ask(COMPLETIONS, prompt=PROMPT, max_tokens=2).body["usage"]
    assert "prompt_tokens_details" not in usage
