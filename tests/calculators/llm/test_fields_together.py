"""Combined members of a request: calls with samples, stops, special tokens and probabilities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from tests.calculators.llm.demo_model import demo_tokenizer
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Answered,
    Asking,
    text_of,
)
from tests.calculators.llm.test_understood_answers import PARIS, WEATHER, gathered

CALLING: dict[str, Any] = {"messages": PARIS, "tools": [WEATHER], "max_tokens": 60}
THINKING: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 80}
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
STREAM_OR_NOT = pytest.mark.parametrize("stream", [False, True])


def message_of(answered: Answered, choice: int = 0) -> dict[str, Any]:
    """Return message and finish reason, of a whole answer or of a stream."""
    if answered.is_stream:
        return gathered(answered, choice)
    found: dict[str, Any] = answered.body["choices"][choice]
    return {**found["message"], "finish_reason": found["finish_reason"]}


def typed_events(answered: Answered) -> list[dict[str, Any]]:
    """Return the data of events that have a type in a line of its own."""
    lines = "".join(answered.values).splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def functions_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [call["function"] for call in message["tool_calls"]]


def test_each_sample_has_its_calls_in_streams_and_bodies(ask: Asking) -> None:
    asked = {**CALLING, "n": 2, "temperature": 1.2, "seed": 3}
    whole, streamed = ask(CHAT, **asked), ask(CHAT, stream=True, **asked)
    messages = [message_of(streamed, index) for index in (0, 1)]
    assert [functions_of(each) for each in messages] == [
        functions_of(message_of(whole, index)) for index in (0, 1)
    ]
    for each in messages:
        assert each["finish_reason"] == "tool_calls"
        assert [call["index"] for call in each["tool_calls"]] == [0]
    ids = [call["id"] for each in messages for call in each["tool_calls"]]
    assert len(set(ids)) == len(ids) == 2


@STREAM_OR_NOT
def test_a_stop_string_inside_a_call_leaves_it_unclosed(ask: Asking, stream: bool) -> None:
    message = message_of(ask(CHAT, stop="Paris", stream=stream, **CALLING))
    (function,) = functions_of(message)
    assert function == {"name": "get_weather", "arguments": '{"city":"'}
    assert message["content"] == ""
    # No client should make this call.
    assert message["finish_reason"] == "stop"


@STREAM_OR_NOT
def test_a_call_that_a_stop_string_cuts_is_incomplete_in_every_api(
    ask: Asking, stream: bool
) -> None:
    called: Any = WEATHER["function"]
    function = {"type": "function", **called}
    asked = {"tools": [function], "stop": "Paris", "max_output_tokens": 60, "stream": stream}
    answered = ask(RESPONSES, input=PARIS, **asked)
    response = typed_events(answered)[-1]["response"] if stream else answered.body
    assert response["output"][-1]["arguments"] == '{"city":"'
    assert response["output"][-1]["status"] == "incomplete"

    tool = {"name": "get_weather", "input_schema": function["parameters"]}
    asked = {"tools": [tool], "stop_sequences": ["Paris"], "max_tokens": 60, "stream": stream}
    answered = ask(MESSAGES, messages=PARIS, **asked)
    ending = typed_events(answered)[-2]["delta"] if stream else answered.body
    assert (ending["stop_reason"], ending["stop_sequence"]) == ("stop_sequence", "Paris")


@STREAM_OR_NOT
def test_a_stop_string_before_a_call_leaves_text(ask: Asking, stream: bool) -> None:
    message = message_of(ask(CHAT, stop="get_weather", stream=stream, **CALLING))
    assert not message.get("tool_calls")
    assert message["content"] == '<tool_call>\n{"name": "'
    assert message["finish_reason"] == "stop"


@STREAM_OR_NOT
@pytest.mark.parametrize("shown", [False, True])
def test_a_stop_string_after_a_call_leaves_it_whole(ask: Asking, stream: bool, shown: bool) -> None:
    stops: dict[str, Any] = {"stop": "</tool_call>", "include_stop_str_in_output": shown}
    message = message_of(ask(CHAT, stream=stream, **stops, **CALLING))
    (function,) = functions_of(message)
    assert json.loads(function["arguments"]) == {"city": "Paris"}
    assert message["content"] == ""
    assert message["finish_reason"] == "tool_calls"


@STREAM_OR_NOT
def test_a_stop_token_after_a_call_leaves_it_whole(ask: Asking, stream: bool) -> None:
    token = demo_tokenizer().get_vocab()[b"</tool_call>"]
    answered = ask(CHAT, stop_token_ids=[token], stream=stream, **CALLING)
    (function,) = functions_of(message_of(answered))
    assert json.loads(function["arguments"]) == {"city": "Paris"}
    if not stream:
        full = ask(CHAT, **CALLING).body["usage"]["completion_tokens"]
        assert answered.body["usage"]["completion_tokens"] < full


def test_log_probabilities_include_the_tokens_of_reasoning(ask: Asking) -> None:
    body = ask(CHAT, logprobs=True, **THINKING).body
    (choice,) = body["choices"]
    events = ask(CHAT, logprobs=True, stream=True, **THINKING).events
    deltas = [each for event in events for each in event["choices"]]
    tokens = [token for each in deltas if each["logprobs"] for token in each["logprobs"]["content"]]
    assert tokens == choice["logprobs"]["content"]
    assert len(tokens) == body["usage"]["completion_tokens"]
    spoken = "".join(token["token"] for token in tokens)
    # White space around the marks of the reasoning is not a part of it.
    thought = "".join(choice["message"]["reasoning_content"].split())
    assert "".join(spoken.split()).startswith(f"<think>{thought}</think>")
    # Log-probabilities of the reasoning are sent with its text at the latest.
    spoken, reasoning = "", "<think>"
    for each in deltas:
        spoken += "".join(token["token"] for token in (each["logprobs"] or {}).get("content", []))
        if each["delta"].get("reasoning_content"):
            reasoning += each["delta"]["reasoning_content"]
            assert "".join(spoken.split()).startswith("".join(reasoning.split()))
    assert reasoning == "<think>" + choice["message"]["reasoning_content"]


@STREAM_OR_NOT
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_there_is_one_call_where_parallel_calls_are_forbidden(
    ask: Asking, choice: str, stream: bool
) -> None:
    messages = [{"role": "user", "content": "What is the weather in Paris, and in London?"}]
    asked = {**CALLING, "messages": messages, "tool_choice": choice, "stream": stream}
    message = message_of(ask(CHAT, parallel_tool_calls=False, **asked))
    assert len(message["tool_calls"]) == 1
    assert message["finish_reason"] == "tool_calls"


@STREAM_OR_NOT
def test_an_echo_precedes_a_guided_answer(ask: Asking, stream: bool) -> None:
    asked: dict[str, Any] = {"guided_choice": ["foo", "bar"], "echo": True, "stream": stream}
    text = text_of(ask(COMPLETIONS, prompt="The capital", **asked))
    assert text in ("The capitalfoo", "The capitalbar")


@STREAM_OR_NOT
@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ({"guided_choice": [" yes"]}, " yes"),
        ({"guided_choice": ["yes"]}, "yes"),
        ({"guided_regex": " {2}b"}, "  b"),
        ({"response_format": {"type": "const_string", "value": "\nabc"}}, "\nabc"),
    ],
)
def test_a_form_keeps_the_white_space_at_its_beginning(
    ask: Asking, form: dict[str, Any], answer: str, thinks: bool, stream: bool
) -> None:
    how = {"chat_template_kwargs": {"enable_thinking": thinks}, "stream": stream}
    assert message_of(ask(CHAT, messages=HELLO, max_tokens=80, **how, **form))["content"] == answer


def test_an_echo_before_a_guided_answer_has_probabilities(ask: Asking) -> None:
    asked: dict[str, Any] = {"guided_choice": ["foo", "bar"], "echo": True, "logprobs": 1}
    (choice,) = ask(COMPLETIONS, prompt="The capital", **asked).body["choices"]
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    assert all(each <= 0 for each in logprobs["token_logprobs"][1:])
    assert "".join(logprobs["tokens"]).startswith(choice["text"])


@pytest.mark.parametrize("member", [{"ignore_eos": True}, {"min_tokens": 3}])
def test_an_error_beside_a_forced_call_names_the_choice(
    ask: Asking, member: dict[str, Any]
) -> None:
    with pytest.raises(RequestError, match="a tool_choice that forces a call") as caught:
        ask(CHAT, **{**CALLING, "tool_choice": "required", **member})
    assert caught.value.param == next(iter(member))


@STREAM_OR_NOT
def test_special_tokens_that_are_shown_do_not_hide_calls(ask: Asking, stream: bool) -> None:
    message = message_of(ask(CHAT, skip_special_tokens=False, stream=stream, **CALLING))
    (function,) = functions_of(message)
    assert json.loads(function["arguments"]) == {"city": "Paris"}
    assert message["content"].strip() == "<|im_end|>"


@pytest.mark.parametrize(
    "members",
    [
        {"tool_choice": {"type": "function", "function": {"name": "nope"}}, "tools": [WEATHER]},
        {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        {"tool_choice": "required"},
        {"tool_choice": "required", "tools": []},
    ],
)
def test_a_choice_without_its_tool_is_refused(ask: Asking, members: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as raised:
        ask(CHAT, **members)
    assert raised.value.param == "tool_choice"


@STREAM_OR_NOT
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_a_required_tool_is_called(ask: Asking, choice: Any, stream: bool) -> None:
    asked = {**CALLING, "messages": HELLO, "tool_choice": choice, "stream": stream}
    message = message_of(ask(CHAT, **asked))
    (function,) = functions_of(message)
    assert function["name"] == "get_weather"
    assert set(json.loads(function["arguments"])) == {"city"}


def test_a_required_call_that_is_cut_off_is_shown(ask: Asking) -> None:
    (choice,) = ask(CHAT, **{**CALLING, "max_tokens": 3, "tool_choice": "required"}).body["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith("<tool_call>")
