"""Parsing of ``/responses`` bodies, and their refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from calculators.kit.requests.http_payload import NoClient, RequestError
from calculators.language.generation_request import Api
from calculators.llm.api.neutral_request import neutral_request
from calculators.llm.api.openai.responses_request import (
    ResponsesRequest,
    parse_compact_request,
    parse_input_tokens_request,
    parse_responses_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
OTHER = {"type": "function", "name": "g", "description": "does g", "parameters": {}}


def parsed(limits: RequestLimits | None = None, **members: Any) -> ResponsesRequest:
    body = {"model": "m", "input": "hi", **members}
    return parse_responses_request(body, limits or RequestLimits(), ModelDefaults())


def refused(**members: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        parsed(**members)
    return raised.value


@pytest.mark.parametrize("parse", [parse_compact_request, parse_input_tokens_request])
def test_requests_about_the_length_are_checked_as_those_for_an_answer(
    parse: Callable[..., ResponsesRequest],
) -> None:
    body = {"model": "m", "input": "hi", "structured_outputs": {"choice": ["a"]}}
    request = parse(body, RequestLimits(), ModelDefaults())
    assert request.messages[0]["content"] == "hi"
    # A summary is not made in the form of an answer.
    assert (request.structured is None) == (parse is parse_compact_request)
    for member, value in (("text", {"verbosity": "AAA"}), ("structured_outputs", {"choice": []})):
        with pytest.raises(RequestError) as raised:
            parse({**body, member: value}, RequestLimits(), ModelDefaults())
        assert (raised.value.param or "").partition(".")[0] == member


def names(request: ResponsesRequest) -> list[str]:
    return [tool["function"]["name"] for tool in request.tools.items]


def test_the_name_of_a_tool_may_have_128_characters() -> None:
    long = "mcp__server__" + "n" * 115
    assert names(parsed(tools=[{**TOOL, "name": long}])) == [long]
    error = refused(tools=[{**TOOL, "name": long + "n"}])
    assert (error.param, "1 to 128 letters" in str(error)) == ("tools[0].name", True)


def test_instructions_come_first() -> None:
    assert parsed(instructions="Be short.").messages == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("And kind.", "Be short.\n\nAnd kind."),
        (
            [{"type": "input_text", "text": "And kind."}],
            [{"type": "text", "text": "Be short."}, {"type": "text", "text": "And kind."}],
        ),
    ],
)
def test_instructions_and_a_system_message_become_one(content: Any, expected: Any) -> None:
    items = [{"role": "developer", "content": content}, {"role": "user", "content": "hi"}]
    request = parsed(instructions="Be short.", input=items)
    assert request.messages == [
        {"role": "developer", "content": expected},
        {"role": "user", "content": "hi"},
    ]


def test_flat_tools_are_nested_for_the_template() -> None:
    nested = {"type": "function", "function": {"name": "h", "parameters": {}}}
    request = parsed(tools=[{**TOOL, "response": {}}, nested])
    assert request.tools.items == [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"type": "object"}, "strict": True},
        },
        nested,
    ]
    assert request.tools.choice == "auto"


@pytest.mark.parametrize(
    ("choice", "left", "kind", "shown"),
    [
        (None, ["f", "g"], "auto", "auto"),
        ("required", ["f", "g"], "required", "required"),
        (
            {"type": "function", "name": "g"},
            ["g"],
            "named",
            {"type": "function", "name": "g"},
        ),
        (
            {"type": "function", "function": {"name": "g"}},
            ["g"],
            "named",
            {"type": "function", "name": "g"},
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [TOOL]},
            ["f"],
            "required",
            {"type": "allowed_tools", "mode": "required", "tools": [TOOL]},
        ),
    ],
)
def test_the_choice_selects_tools_and_the_answer_lists_all(
    choice: Any, left: list[str], kind: str, shown: Any
) -> None:
    request = parsed(tools=[TOOL, OTHER], tool_choice=choice)
    assert names(request) == left
    assert request.tools.choice == kind
    assert request.echo["tool_choice"] == shown
    assert request.echo["tools"] == [
        {**TOOL, "description": None},
        {**OTHER, "strict": None},
    ]


def test_selected_tools_keep_their_places() -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [OTHER]}
    tools = parsed(tools=[TOOL, OTHER], tool_choice=choice).tools
    assert tools.schema_paths == ("tools[1].parameters",)


def test_the_choice_none_leaves_and_lists_no_tools() -> None:
    request = parsed(tools=[{"type": "?"}], tool_choice="none")
    assert (request.tools.items, request.echo["tools"]) == ([], [])


def test_parallel_calls_can_be_forbidden() -> None:
    assert parsed().parallel_tool_calls
    request = parsed(parallel_tool_calls=False)
    assert not request.parallel_tool_calls
    assert request.echo["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("effort", "thinks"), [("none", False), ("low", True), ("high", True), ("xhigh", True)]
)
def test_the_effort_reaches_the_template(effort: str, thinks: bool) -> None:
    request = parsed(reasoning={"effort": effort, "summary": "auto"})
    assert request.template.values == {"reasoning_effort": effort, "enable_thinking": thinks}
    assert request.echo["reasoning"] == {"effort": effort, "summary": "auto"}


def test_template_arguments_override_the_effort() -> None:
    request = parsed(reasoning={"effort": "high"}, chat_template_kwargs={"enable_thinking": False})
    assert request.template.values["enable_thinking"] is False


def test_sampling_is_as_in_a_chat_request() -> None:
    request = parsed(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, seed=3, stop=["x"], max_output_tokens=5
    )
    settings = request.settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 7)
    assert (settings.min_p, settings.rng_seed, settings.stop_strings) == (0.1, 3, ("x",))
    assert settings.max_new_tokens == 5
    assert request.echo["temperature"] == 0.5
    assert request.echo["top_p"] == 0.9
    assert request.echo["max_output_tokens"] == 5


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_names_of_chat_requests_for_the_length_are_refused(name: str) -> None:
    with pytest.raises(RequestError, match="max_output_tokens") as raised:
        parsed(None, **{name: 5})
    assert raised.value.param == name


def test_the_default_length_is_the_graphs_limit() -> None:
    request = parsed(RequestLimits(max_tokens_limit=9))
    assert request.echo["max_output_tokens"] == 9


@pytest.mark.parametrize(
    "members", [{"include": ["message.output_text.logprobs"]}, {"logprobs": True}]
)
def test_log_probabilities_can_be_included(members: dict[str, Any]) -> None:
    request = parsed(**members)
    assert request.logprobs
    assert request.settings.logprobs


def test_a_text_format_binds_the_answer_and_is_repeated() -> None:
    form = {
        "type": "json_schema",
        "name": "person",
        "schema": {"type": "object", "properties": {}, "additionalProperties": False},
        "strict": True,
    }
    request = parsed(text={"format": form, "verbosity": "low"})
    assert request.structured is not None
    assert request.echo["text"] == {"format": form, "verbosity": "low"}
    assert parsed(text={"format": {"type": "text"}}).structured is None


@pytest.mark.parametrize(
    "members",
    [
        {"store": True},
        {"background": False, "previous_response_id": None},
        {"truncation": "auto"},
        {"include": ["reasoning.encrypted_content"]},
        {"stream_options": {"include_obfuscation": False}, "stream": True},
        {"service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s", "user": "u"},
        {"max_tool_calls": 3},
        {"metadata": {"a": "b"}},
        {"top_logprobs": 0},
        {"n": 1, "best_of": 2},
    ],
)
def test_members_without_effect_are_accepted(members: dict[str, Any]) -> None:
    request = parsed(**members)
    assert request.echo["store"] is False
    assert request.echo["truncation"] == "disabled"


@pytest.mark.parametrize(
    ("members", "param", "text"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "no responses are kept"),
        ({"conversation": "conv_1"}, "conversation", "no responses are kept"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "stored"),
        ({"background": True}, "background", "no responses are kept"),
        ({"background": 0}, "background", "true or false"),
        ({"n": 2}, "n", "one answer"),
        ({"instructions": 3}, "instructions", "a string"),
        ({"text": "json"}, "text", "an object"),
        ({"text": {"verbosity": 3}}, "text.verbosity", "a string"),
        ({"reasoning": "high"}, "reasoning", "an object"),
        ({"reasoning": {"effort": 1}}, "reasoning.effort", "a string"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort", '"xhigh"'),
        ({"max_output_tokens": 0}, "max_output_tokens", "minimum 1"),
        ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
        ({"top_logprobs": 2, "logprobs": True}, "top_logprobs", "chosen"),
        ({"include": [1]}, "include[0]", "a string"),
        ({"include": ["bogus"]}, "include[0]", "reasoning.encrypted_content"),
        ({"truncation": "maybe"}, "truncation", '"disabled"'),
        ({"metadata": []}, "metadata", "an object"),
        (
            {"stream": True, "stream_options": {"continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats",
            "usage",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
        ({"tools": [TOOL, OTHER, TOOL]}, "tools[2].name", "already"),
        (
            {"tools": [TOOL, {"type": "mcp", "server_label": "x"}]},
            "tools[1].require_approval",
            "never",
        ),
        ({"tools": [TOOL, {"type": "web_search"}]}, "tools[1].type", "web_search"),
        ({"tools": [{"type": "fucntion", "name": "x"}]}, "tools[0].type", 'mean "function"'),
        ({"tools": [{"type": "namespace"}]}, "tools[0].name", "Missing"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type", "forced"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "name": "x"}},
            "tool_choice",
            "none of the tools",
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "all", "tools": []}},
            "tool_choice.mode",
            "required",
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [1]},
            },
            "tool_choice.tools[0]",
            "function",
        ),
        ({"logit_bias": {"1": 2}}, "logit_bias", "not supported"),
    ],
)
def test_members_that_cannot_be_honoured_are_refused_by_name(
    members: dict[str, Any], param: str, text: str
) -> None:
    error = refused(**members)
    assert error.param == param
    assert text in str(error)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    body = {"model": "m", "input": "hi", "max_tool_calls": 5.0, "max_output_tokens": 7.0}
    checked = parse_responses_request(body, RequestLimits(), ModelDefaults())
    request = neutral_request(checked, Api.RESPONSES, body, NoClient(), None)
    assert str((request.max_tool_calls, request.echo["max_output_tokens"])) == "(5, 7)"
