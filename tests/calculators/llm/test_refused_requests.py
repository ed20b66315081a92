"""Requests that the model's node refuses, each with the field and the code."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.llm.engine.engine import ProcessEngine
from graph_runtime import Cancelled, Code
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    QUEUE,
    RESPONSES,
    Asking,
    request,
    text_of,
)
from tests.support.conditions import signal_process, until
from tests.support.patience import PATIENCE


def refusal(ask: Asking, uri: str, **body: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        ask(uri, **body)
    assert ask.servable.engine.unfinished == 0
    return caught.value


@pytest.mark.parametrize("stream", [True, False])
def test_a_token_id_beyond_the_vocabulary_is_named(ask: Asking, stream: bool) -> None:
    size = len(ask.servable.tokens.pieces)
    error = refusal(ask, COMPLETIONS, prompt=[1, 2, size], stream=stream)
    assert (error.param, error.code) == ("prompt[2]", Code.INVALID_ARGUMENT)
    assert str(size) in str(error)
    error = refusal(ask, COMPLETIONS, prompt=[[1], [2, 10**6]])
    assert error.param == "prompt[1][1]"
    assert text_of(ask(COMPLETIONS, prompt=[size - 1], max_tokens=1)) is not None


@pytest.mark.parametrize("stream", [True, False])
def test_a_misspelt_role_is_named(ask: Asking, stream: bool) -> None:
    messages = [{"role": "usr", "content": "Hello"}, {"role": "user", "content": "Hi"}]
    error = refusal(ask, CHAT, messages=messages, stream=stream)
    assert (error.param, error.code) == ("messages[0].role", Code.INVALID_ARGUMENT)
    assert '"usr"' in str(error)
    assert '"system", "user", "assistant" and "tool"' in str(error)
    items = [{"role": "usr", "content": "Hello"}, {"role": "user", "content": "Hi"}]
    assert refusal(ask, RESPONSES, input=items, stream=stream).param == "input"


def test_documents_are_refused_by_a_model_whose_template_ignores_them(ask: Asking) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    error = refusal(ask, CHAT, messages=messages, documents=[{"text": "graphs have nodes"}])
    assert error.param == "documents"
    kwargs = {"documents": [{"text": "graphs have nodes"}]}
    error = refusal(ask, CHAT, messages=messages, chat_template_kwargs=kwargs)
    assert error.param == "documents"


@pytest.mark.parametrize(
    ("uri", "field", "value"),
    [
        (COMPLETIONS, "prompt", "hello " * 3000),
        (COMPLETIONS, "prompt", "hello " * 300_000),
        (COMPLETIONS, "prompt", [5] * 3000),
        (CHAT, "messages", [{"role": "user", "content": "hello " * 3000}]),
        (CHAT, "messages", [{"role": "user", "content": "hello " * 300_000}]),
    ],
    ids=["tokens", "characters", "ids", "chat tokens", "chat characters"],
)
def test_a_prompt_that_cannot_fit_is_refused_with_both_numbers(
    ask: Asking, uri: str, field: str, value: Any
) -> None:
    error = refusal(ask, uri, **{field: value})
    assert (error.param, error.code) == (field, Code.OUT_OF_RANGE)
    assert error.reason == "context_length_exceeded"
    numbers = [int(word) for word in str(error).replace(";", " ").split() if word.isdigit()]
    assert 2048 in numbers
    assert max(numbers) >= 3000


def test_prompt_and_answer_together_must_fit(ask: Asking) -> None:
    error = refusal(ask, COMPLETIONS, max_tokens=2048)
    assert error.code is Code.OUT_OF_RANGE
    assert "2048" in str(error)


@pytest.mark.parametrize("uri", ["/v3/embeddings", "/v3/", "/v3/chat/completions/"])
def test_another_path_is_not_found(ask: Asking, uri: str) -> None:
    assert refusal(ask, uri).code is Code.NOT_FOUND


def test_a_body_that_is_not_json_is_refused(ask: Asking) -> None:
    async def run() -> None:
        run = ask.new_run()
        await run.graph.start_run_async({"llm": {"LLMExecutor": ask.servable}})
        run.graph.add_packet_to_input_stream("input", HttpPayload(CHAT, {}, b"{"), 0)
        run.graph.close_all_input_streams()
        await run.end()

    with pytest.raises(RequestError, match="must be JSON"):
        ask.runner.run(run())


def test_a_refused_request_does_not_disturb_a_running_one(ask: Asking) -> None:
    async def run() -> None:
        good = ask.new_run()
        await good.start(CHAT, request(CHAT, stream=True))
        with pytest.raises(RequestError):
            await ask.answer(COMPLETIONS, request(COMPLETIONS, prompt=[10**6]))
        with pytest.raises(RequestError):
            await ask.answer(CHAT, request(CHAT, temperature="hot"))
        assert (await good.end()).events

    ask.runner.run(run())


def test_a_full_queue_refuses_with_the_time_to_retry(ask: Asking) -> None:
    async def run() -> None:
        engine = ask.servable.engine
        runs = [ask.new_run() for _ in range(QUEUE)]
        for each in runs:
            body = request(COMPLETIONS, max_tokens=2000, ignore_eos=True, stream=True)
            await each.start(COMPLETIONS, body)
        await until(lambda: engine.unfinished == QUEUE)
        with pytest.raises(RequestError) as caught:
            await ask.answer(CHAT, request(CHAT))
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        assert caught.value.retry_after
        assert str(QUEUE) in str(caught.value)
        for each in runs:
            each.graph.cancel()
            with pytest.raises(Cancelled):
                await each.end()
        assert engine.unfinished == 0
        assert (await ask.answer(CHAT, request(CHAT))).body

    ask.runner.run(run())


def test_an_engine_that_dies_ends_its_answers_and_is_restarted(ask: Asking) -> None:
    async def run() -> None:
        engine = ask.servable.engine
        assert isinstance(engine, ProcessEngine)
        runs = [ask.new_run() for _ in range(4)]
        for number, each in enumerate(runs):
            body = request(COMPLETIONS, max_tokens=2000, ignore_eos=True, stream=number % 2 == 0)
            await each.start(COMPLETIONS, body)
        await until(lambda: engine.unfinished == 4 and bool(runs[0].answered.values))
        signal_process(engine.pid, signal.SIGKILL)
        for each in runs:
            with pytest.raises(RequestError) as caught:
                await each.end()
            assert caught.value.code is Code.UNAVAILABLE
            assert caught.value.retry_after
        assert ask.servable.unavailable_reason
        with pytest.raises(RequestError) as caught:
            await ask.answer(CHAT, request(CHAT))
        assert caught.value.code is Code.UNAVAILABLE
        await until(lambda: not ask.servable.unavailable_reason)
        assert (await ask.answer(CHAT, request(CHAT))).body

    ask.runner.run(asyncio.wait_for(run(), PATIENCE))
