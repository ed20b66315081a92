"""The example graph that answers one request at a time, compared with continuous batching."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import TOO_LONG
from graph_runtime import Cancelled, Code
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    RESPONSES,
    Asking,
    LeavingClient,
    request,
    text_of,
)
from tests.calculators.llm.graph_texts import plan_of, resources_of
from tests.support.conditions import soon, until

EXAMPLE = DEMO.parents[1] / "graphs" / "stateful"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def stateful(runner: asyncio.Runner) -> Iterator[Asking]:
    text = (EXAMPLE / "graph.pbtxt").read_text(encoding="utf-8")
    resources = runner.run(soon(resources_of(text, EXAMPLE)))
    yield Asking(runner, plan_of(text), resources)
    runner.run(resources.close())


def without_times(body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an answer on which two engines have to agree."""
    return {
        name: value
        for name, value in body.items()
        if name not in ("id", "created", "created_at", "completed_at", "system_fingerprint")
    }


@pytest.mark.parametrize(
    ("uri", "more"),
    [
        (CHAT, {}),
        (CHAT, {"max_tokens": 3}),
        (CHAT, {"stop": "is"}),
        (CHAT, {"n": 3}),
        (CHAT, {"best_of": 3, "n": 2, "max_tokens": 8}),
        (COMPLETIONS, {}),
        (COMPLETIONS, {"echo": True}),
        (COMPLETIONS, {"echo": True, "max_tokens": 0}),
        (COMPLETIONS, {"prompt": ["The capital of France", "1 2 3"]}),
        (COMPLETIONS, {"ignore_eos": True, "repetition_penalty": 1.3, "max_tokens": 40}),
        (COMPLETIONS, {"stop_token_ids": [15, 16], "ignore_eos": True}),
    ],
    ids=str,
)
def test_a_greedy_answer_is_that_of_continuous_batching(
    stateful: Asking, ask: Asking, uri: str, more: dict[str, Any]
) -> None:
    assert without_times(stateful(uri, **more).body) == without_times(ask(uri, **more).body)


@pytest.mark.parametrize("uri", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("more", [{}, {"n": 2}, {"max_tokens": 5, "ignore_eos": True}], ids=str)
def test_a_stream_joins_to_the_whole_answer_and_ends_with_usage(
    stateful: Asking, uri: str, more: dict[str, Any]
) -> None:
    whole = stateful(uri, **more).body
    streamed = stateful(uri, stream=True, stream_options={"include_usage": True}, **more)
    *events, last = streamed.events
    assert last["usage"] == whole["usage"]
    reasons = {
        choice["index"]: choice["finish_reason"]
        for event in events
        for choice in event["choices"]
        if choice["finish_reason"]
    }
    for choice in whole["choices"]:
        index = choice["index"]
        assert reasons[index] == choice["finish_reason"]
        said = choice["message"]["content"] if uri == CHAT else choice["text"]
        assert text_of(streamed, choice=index) == said


def test_a_response_is_that_of_continuous_batching(stateful: Asking, ask: Asking) -> None:
    def said(asking: Asking) -> tuple[str, dict[str, Any]]:
        body = {"model": "demo", "temperature": 0, "max_output_tokens": 24, "input": "Hello"}
        answer = asking.runner.run(asking.answer(RESPONSES, body)).body
        return answer["output"][-1]["content"][0]["text"], answer["usage"]

    assert said(stateful) == said(ask)


def test_samples_are_several_and_repeatable(stateful: Asking) -> None:
    asked = {"n": 3, "temperature": 1.5, "seed": 5, "max_tokens": 12}
    first, again = stateful(CHAT, **asked), stateful(CHAT, **asked)
    texts = [text_of(first, choice=index) for index in range(3)]
    assert texts == [text_of(again, choice=index) for index in range(3)]
    assert len(set(texts)) > 1


def test_an_answer_follows_a_schema(stateful: Asking) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    answer = stateful(CHAT, response_format=form, max_tokens=60)
    jsonschema.validate(json.loads(text_of(answer)), PERSON)


def test_a_tool_is_called_by_its_schema(stateful: Asking) -> None:
    answer = stateful(CHAT, tools=[WEATHER], tool_choice="required", max_tokens=80)
    (choice,) = answer.body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    call = choice["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather"
    assert list(json.loads(call["arguments"])) == ["city"]


def test_a_bad_grammar_is_refused_and_the_next_request_answered(stateful: Asking) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
    with pytest.raises(RequestError):
        stateful(CHAT, response_format=form)
    assert text_of(stateful(CHAT))


@pytest.mark.parametrize(
    ("uri", "more", "param"),
    [
        (CHAT, {"logprobs": True}, "logprobs"),
        (COMPLETIONS, {"logprobs": 1}, "logprobs"),
        (COMPLETIONS, {"logprobs": 1, "echo": True}, "logprobs"),
        (RESPONSES, {"include": ["message.output_text.logprobs"], "input": "Hello"}, "include"),
    ],
)
def test_log_probabilities_are_refused(
    stateful: Asking, uri: str, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError, match="log-probabilities are not known") as caught:
        stateful(uri, **more)
    assert caught.value.param == param
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_prompt_longer_than_the_devices_limit_is_refused(
    stateful: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limit of an NPU, which no machine of these tests has.
    limits = dataclasses.replace(stateful.servable.limits, prompt=10)
    monkeypatch.setattr(stateful.servable, "limits", limits)
    with pytest.raises(RequestError) as caught:
        stateful(COMPLETIONS, prompt=list(range(40, 51)))
    error = caught.value
    assert str(error) == (
        "the prompt has 11 tokens; this model takes at most 10 at once (MAX_PROMPT_LEN)"
    )
    assert (error.param, error.code, error.reason) == ("prompt", Code.OUT_OF_RANGE, TOO_LONG)
    assert text_of(stateful(COMPLETIONS, prompt=list(range(40, 50))))


@pytest.mark.parametrize("more", [{"stream": True}, {}, {"n": 3, "temperature": 1}], ids=str)
def test_a_client_that_leaves_makes_room_for_the_next(
    stateful: Asking, more: dict[str, Any]
) -> None:
    async def run() -> None:
        client = LeavingClient()
        leaving = stateful.new_run()
        endless = request(COMPLETIONS, max_tokens=2000, ignore_eos=True, **more)
        await leaving.start(COMPLETIONS, endless, client)
        engine = stateful.servable.engine
        await until(lambda: engine.running > 0)
        client.leave()
        # However few tokens the model would write.
        three = request(COMPLETIONS, max_tokens=3, ignore_eos=True)
        answered = await stateful.answer(COMPLETIONS, three)
        assert answered.body["usage"]["completion_tokens"] == 3
        assert engine.unfinished == 0
        with pytest.raises(Cancelled):
            await leaving.end()

    stateful.runner.run(run())


def test_concurrent_equal_requests_get_equal_answers(stateful: Asking) -> None:
    async def run() -> None:
        alone = text_of(await stateful.answer(COMPLETIONS, request(COMPLETIONS)))
        together = await asyncio.gather(
            *(stateful.answer(COMPLETIONS, request(COMPLETIONS)) for _ in range(12))
        )
        assert {text_of(each) for each in together} == {alone}

    stateful.runner.run(run())
