"""Parsing of the bodies of Ollama's API, and their refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import NoClient, RequestError
from calculators.kit.requests.keep_alive import keep_alive_seconds
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.language.generation_request import Api
from calculators.llm.api.neutral_request import (
    OPEN_DEFAULTS,
    OPEN_LIMITS,
    neutral_request,
    resolved_request,
)
from calculators.llm.api.ollama import (
    parse_chat_request,
    parse_generate_request,
)
from calculators.llm.requests.completions_request import ChatRequest, CompletionRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

LIMITS = RequestLimits(max_images=2, max_model_length=100)
USER = {"role": "user", "content": "hi"}
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(autouse=True)
def record() -> Iterator[RequestRecord]:
    record = RequestRecord("mine")
    set_current_record(record)
    yield record
    set_current_record(None)


def chat(limits: RequestLimits = LIMITS, **members: Any) -> ChatRequest:
    return parse_chat_request(
        {"model": "m", "messages": [USER], **members}, limits, ModelDefaults()
    )


def generate(**members: Any) -> ChatRequest | CompletionRequest:
    return parse_generate_request(
        {"model": "m", "prompt": "hi", **members}, LIMITS, ModelDefaults()
    )


def refused(**members: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        chat(**members)
    return raised.value


def test_options_are_sampling() -> None:
    settings = chat(
        options={
            "num_predict": 7,
            "temperature": 0.5,
            "top_k": 3,
            "top_p": 0.4,
            "min_p": 0.1,
            "seed": 42,
            "stop": ["a", "b"],
            "repeat_penalty": 1.2,
            "presence_penalty": 0.3,
            "frequency_penalty": 0.2,
        }
    ).settings
    assert (settings.max_new_tokens, settings.temperature, settings.top_k) == (7, 0.5, 3)
    assert (settings.top_p, settings.min_p, settings.rng_seed) == (0.4, 0.1, 42)
    assert settings.stop_strings == ("a", "b")
    assert settings.repetition_penalty == pytest.approx(1.2)
    assert settings.presence_penalty == pytest.approx(0.3)
    assert settings.frequency_penalty == pytest.approx(0.2)


@pytest.mark.parametrize("count", [0, -1, -2])
def test_no_number_of_tokens_is_no_limit(count: int) -> None:
    assert chat(options={"num_predict": count}).settings.max_new_tokens is None


def test_answers_come_in_lines_unless_the_client_wants_them_whole() -> None:
    assert chat().stream
    assert not chat(stream=False).stream


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": 5}, "options.temperature"),
        ({"num_predict": "many"}, "options.num_predict"),
        ({"num_predict": 100}, "options.num_predict"),
        ({"top_p": 0, "temperature": 1}, "options.top_p"),
        ({"stop": [1]}, "options.stop[0]"),
        ({"num_ctx": -1}, "options.num_ctx"),
        ({"temprature": 1}, "options.temprature"),
    ],
)
def test_a_bad_option_is_named_as_the_client_has_it(options: Any, param: str) -> None:
    error = refused(limits=RequestLimits(max_tokens_limit=50), options=options)
    assert error.param == param
    assert f'"{param.partition("[")[0]}' in str(error)


def test_a_context_beyond_the_model_is_answered_with_a_warning(record: RequestRecord) -> None:
    chat(options={"num_ctx": 100})
    assert not record.warnings
    chat(options={"num_ctx": 101})
    assert "options.num_ctx" in record.warnings[0]


def test_samplers_that_are_not_here_are_left_out_with_a_warning(record: RequestRecord) -> None:
    chat(options={"mirostat": 0, "tfs_z": 1, "typical_p": 1.0, "num_gpu": 1, "num_keep": 4})
    assert not record.warnings
    chat(options={"mirostat": 2})
    assert "options.mirostat" in record.warnings[0]


@pytest.mark.parametrize(
    ("think", "values", "shows"),
    [
        (None, {}, True),
        (True, {"enable_thinking": True}, True),
        (False, {"enable_thinking": False}, False),
        ("high", {"enable_thinking": True, "reasoning_effort": "high"}, True),
    ],
)
def test_thinking(think: Any, values: dict[str, Any], shows: bool) -> None:
    request = chat(think=think)
    assert (request.template.values, request.shows_thinking) == (values, shows)


def test_another_word_for_thinking_is_refused() -> None:
    assert refused(think="hard").param == "think"


def test_formats() -> None:
    assert chat(format="").structured is None
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    asked = chat(format=schema).structured
    assert asked is not None
    assert (asked.param.partition(".")[0], schema in asked.format.values()) == ("format", True)
    whole = chat(format="json").structured
    assert whole is not None
    assert whole.param == "format"
    assert refused(format="xml").param == "format"


def test_calls_and_results_belong_together() -> None:
    turns = [
        USER,
        {
            "role": "assistant",
            "thinking": "hm",
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "mine", "function": {"name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_name": "g", "content": "G"},
        {"role": "tool", "content": "F"},
    ]
    request = chat(messages=turns, tools=[TOOL])
    assistant, second, first = request.messages[1:]
    calls = assistant["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"a": 1}, {}]
    assert assistant["reasoning_content"] == "hm"
    assert (second["tool_call_id"], second["name"]) == ("mine", "g")
    assert (first["tool_call_id"], first["name"]) == (calls[0]["id"], "f")
    assert len(calls[0]["id"]) == 9  # Mistral's templates take no other length
    assert request.tools.items == [TOOL]


def test_images_stand_before_the_text_of_their_message() -> None:
    request = chat(messages=[{**USER, "images": ["QQ==", "data:image/png;base64,QQ=="]}])
    assert [part["type"] for part in request.messages[0]["content"]] == [
        *("image_url", "image_url", "text")
    ]
    assert [image.param for image in request.images] == [
        *("messages[0].images[0]", "messages[0].images[1]")
    ]
    assert [each.param for each in generate(images=["QQ=="]).images] == ["images[0]"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("turn", "param"),
    [
        ({"role": "user", "content": ["hi"]}, "messages[0].content"),
        ({"content": "hi"}, "messages[0].role"),
        ({"role": "user", "images": [1]}, "messages[0].images[0]"),
        ({"role": "user", "images": ["QQ=="] * 3}, "messages[0].images[2]"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function.name"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ("hi", "messages[0]"),
    ],
)
def test_a_bad_message_is_named(turn: Any, param: str) -> None:
    assert refused(messages=[turn]).param == param


def test_the_last_message_of_the_assistant_goes_on() -> None:
    assert chat(messages=[USER, {"role": "assistant", "content": "Once"}]).template.continues
    assert not chat().template.continues


def test_a_prompt_is_a_conversation_unless_it_is_raw() -> None:
    request = generate(system="Be brief.", context=[5, 6])
    assert isinstance(request, ChatRequest)
    assert [(each["role"], each["content"]) for each in request.messages] == [
        ("system", "Be brief."),
        ("user", "hi"),
    ]
    assert (request.context, request.returns_token_ids) == ((5, 6), True)
    raw = generate(raw=True)
    assert isinstance(raw, CompletionRequest)
    assert (raw.prompts, raw.infill) == (("hi",), None)


def test_a_suffix_is_the_other_side_of_a_gap() -> None:
    request = generate(prompt="", suffix="end")
    assert isinstance(request, CompletionRequest)
    assert request.infill is not None
    assert (request.prompts, request.infill.suffix) == (("",), "end")
    assert isinstance(generate(suffix=""), ChatRequest)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"raw": True, "system": "s"}, "system"),
        ({"raw": True, "context": [1]}, "context"),
        ({"context": ["x"]}, "context[0]"),
        ({"prompt": 1}, "prompt"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs"),
    ],
)
def test_a_bad_prompt_is_refused(members: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as raised:
        generate(**members)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *((0, 0), (1.5, 1.5), (-1, math.inf), ("0", 0), ("5m", 300), ("1h30m", 5400)),
        *(("500ms", 0.5), ("-1", math.inf), ("-1m", math.inf), ("0s", 0), ("1.5s", 1.5)),
    ],
)
def test_durations_as_go_writes_them(text: Any, seconds: float) -> None:
    assert keep_alive_seconds(text, "keep_alive") == seconds


@pytest.mark.parametrize("text", ["", "m", "5 m", True, None, [], "1d", "9" * 200])
def test_other_durations_are_refused(text: Any) -> None:
    with pytest.raises(RequestError):
        keep_alive_seconds(text, "keep_alive")


def test_nodes_and_models_read_the_options_by_the_names_of_chats() -> None:
    body = {
        "model": "m",
        "messages": [USER],
        "logprobs": True,
        "options": {"num_predict": 5, "repeat_penalty": 1.5, "stop": "x", "num_ctx": 9},
    }
    checked = parse_chat_request(body, OPEN_LIMITS, OPEN_DEFAULTS)
    request = neutral_request(checked, Api.OLLAMA_CHAT, body, NoClient(), None)
    assert request.sampling == {
        "max_tokens": 5,
        "repetition_penalty": 1.5,
        "stop": "x",
        "logprobs": True,
    }
    resolved = resolved_request(request.with_sampling(max_tokens=6), LIMITS, ModelDefaults())
    assert resolved.settings.max_new_tokens == 6
    assert resolved.settings.repetition_penalty == pytest.approx(1.5)
    assert resolved.settings.logprobs
    # A model with less room stops earlier, as at Ollama.
    assert not resolved.limits_itself


def test_a_raw_prompt_passes_nodes_as_a_completion() -> None:
    body = {"model": "m", "prompt": "hi", "raw": True}
    checked = parse_generate_request(body, OPEN_LIMITS, OPEN_DEFAULTS)
    request = neutral_request(checked, Api.OLLAMA_GENERATE, body, NoClient(), None)
    resolved = resolved_request(request.with_system("Hello"), LIMITS, ModelDefaults())
    assert isinstance(resolved, CompletionRequest)
    assert resolved.prompts == ("Hello\n\nhi",)
