"""Parsing of chat requests, except for sampling."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.requests.completions_request import parse_chat_request
from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.api.openai.bodies import DEFAULTS, LIMITS, chat, refusal

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_the_smallest_request_is_parsed() -> None:
    request = chat()
    assert request.model == "m"
    assert request.messages == [{"role": "user", "content": "hi"}]
    assert request.n == 1
    assert not request.stream
    assert not request.include_usage
    assert not request.logprobs
    assert request.skip_special_tokens
    assert request.parallel_tool_calls
    assert request.template.values == {}
    assert request.template.all_values["add_generation_prompt"]


def test_members_that_change_nothing_are_ignored() -> None:
    members: dict[str, Any] = {
        "user": "me",
        "metadata": {"a": "b"},
        "store": True,
        "timeout": 3,
        "service_tier": "auto",
        "logit_bias": {},
        "modalities": ["text"],
        "response_format": {"type": "text"},
        "functions": [],
    }
    assert chat(seed=1, **members) == chat(seed=1)


@pytest.mark.parametrize("body", [None, [], "x", 3, True])
def test_a_body_that_is_not_an_object_is_refused(body: Any) -> None:
    with pytest.raises(RequestError, match="must be a JSON object"):
        parse_chat_request(body, LIMITS, DEFAULTS)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"user": {"a": 1}}, "user"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"modalities": "text"}, "modalities"),
        ({"modalities": [1]}, "modalities[0]"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"audio": "x"}, "audio"),
        ({"audio": {"format": "mp3"}}, "audio.format"),
        ({"chunk_frames": 0}, "chunk_frames"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"enable_thinking": "yes"}, "enable_thinking"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(members: dict[str, Any], param: str) -> None:
    assert refusal(**members).param == param


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"logit_bias": {"1": 3}}, "logit_bias"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"functions": [{"name": "f"}], "tool_choice": "auto"}, "tool_choice"),
        ({"functions": [{"parameters": {}}]}, "functions[0].name"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call.name"),
        ({"functions": [{"name": "f"}], "function_call": "any"}, "function_call"),
        ({"chat_template": "{{ messages }}"}, "chat_template"),
        ({"suffix": "end"}, "suffix"),
    ],
)
def test_members_that_cannot_be_honoured_are_refused(members: dict[str, Any], param: str) -> None:
    error = refusal(**members)
    assert error.param == param


class TestStreaming:
    def test_usage_is_sent_on_request(self) -> None:
        assert chat(stream=True).stream
        assert not chat(stream=True, stream_options={}).include_usage
        assert chat(stream=True, stream_options={"include_usage": True}).include_usage
        assert not chat(stream=True, stream_options={"include_usage": None}).include_usage

    @pytest.mark.parametrize(
        ("options", "param"),
        [
            ([], "stream_options"),
            ({"nope": 1}, "stream_options.nope"),
            ({"include_usage": 1}, "stream_options.include_usage"),
        ],
    )
    def test_other_options_are_refused(self, options: Any, param: str) -> None:
        assert refusal(stream=True, stream_options=options).param == param

    def test_options_are_for_streams_only(self) -> None:
        assert refusal(stream_options={"include_usage": True}).param == "stream_options"


class TestMedia:
    def test_a_text_model_refuses_images_and_audio(self) -> None:
        text = {"type": "text", "text": "what?"}
        audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
        messages = [{"role": "system", "content": "x"}, {"role": "user", "content": [text, IMAGE]}]
        assert refusal(messages=messages).param == "messages[1].content[1]"
        messages = [{"role": "user", "content": [audio, text]}]
        assert refusal(messages=messages).param == "messages[0].content[0]"

    def test_a_vision_model_limits_the_images_of_all_messages(self) -> None:
        limits = RequestLimits(max_images=2)
        message = {"role": "user", "content": [IMAGE]}
        assert chat(limits, messages=[message] * 2).messages[1]["content"] == [IMAGE]
        assert refusal(limits, messages=[message] * 3).param == "messages[2].content[0]"


def test_the_number_of_messages_is_limited() -> None:
    message = {"role": "user", "content": "hi"}
    limits = RequestLimits(max_messages=3)
    assert len(chat(limits, messages=[message] * 3).messages) == 3
    assert refusal(limits, messages=[message] * 4).param == "messages"


class TestTemplateArguments:
    def test_template_arguments_are_passed_on(self) -> None:
        arguments = {"enable_thinking": False, "custom": [1]}
        assert chat(chat_template_kwargs=arguments).template.values == arguments

    def test_the_generation_prompt_is_a_setting_of_its_own(self) -> None:
        template = chat(chat_template_kwargs={"add_generation_prompt": False}).template
        assert not template.add_generation_prompt
        assert template.values == {}

    @pytest.mark.parametrize(
        ("arguments", "param"),
        [
            ("x", "chat_template_kwargs"),
            ([], "chat_template_kwargs"),
            ({"messages": []}, "chat_template_kwargs.messages"),
            ({"tools": []}, "chat_template_kwargs.tools"),
            ({"self": 1}, "chat_template_kwargs.self"),
            ({"tokenize": True}, "chat_template_kwargs.tokenize"),
            ({"add_generation_prompt": 1}, "chat_template_kwargs.add_generation_prompt"),
        ],
    )
    def test_reserved_names_of_the_renderer_are_refused(self, arguments: Any, param: str) -> None:
        assert refusal(chat_template_kwargs=arguments).param == param

    @pytest.mark.parametrize(
        ("effort", "thinks"), [("none", False), ("low", True), ("high", True), ("minimal", None)]
    )
    def test_an_effort_switches_thinking(self, effort: str, thinks: bool | None) -> None:
        values = chat(reasoning_effort=effort).template.values
        assert values["reasoning_effort"] == effort
        assert values.get("enable_thinking") is thinks

    def test_the_default_effort_says_nothing(self) -> None:
        assert chat(reasoning_effort="default").template.values == {}

    def test_the_explicit_argument_wins(self) -> None:
        values = chat(
            reasoning_effort="high",
            enable_thinking=True,
            chat_template_kwargs={"enable_thinking": False},
        ).template.values
        assert values == {"enable_thinking": False, "reasoning_effort": "high"}
