"""Every member that a client may send has an effect, is refused by name, or may be ignored.

A member that would change the answer and cannot be honoured is refused, never dropped. The names
are those of OpenVINO Model Server, OpenAI's API reference, and vLLM's extra parameters.
"""

from __future__ import annotations

import typing
from typing import Any, Final

import msgspec
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import Standing
from calculators.llm import endpoints
from calculators.llm.api.openai.responses_request import ResponsesRequest
from calculators.llm.endpoint import LlmEndpoint
from calculators.llm.requests.checked_request import CheckedRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from servers.contract.failure import clean
from tests.calculators.llm.api.openai.field_outcomes import (
    Effect,
    NoEffect,
    Outcome,
    Refusal,
    Table,
)
from tests.calculators.llm.api.openai.field_tables import CHAT, COMPLETIONS, RESPONSES

TABLES: Final[dict[str, Table]] = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "responses": RESPONSES,
}
_ENDPOINTS: Final = {
    "chat": endpoints.CHAT_COMPLETIONS,
    "completions": endpoints.COMPLETIONS,
    "responses": endpoints.RESPONSES,
}
_BODIES: Final[dict[str, dict[str, Any]]] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
}
#: With a fixed seed, equal requests are equal.
_SEED: Final = {"seed": 1}

#: Members of OpenVINO Model Server, by endpoint.
_OVMS_COMMON: Final = """
    stream stream_options model ignore_eos frequency_penalty presence_penalty repetition_penalty
    length_penalty temperature top_p min_p top_k seed stop include_stop_str_in_output best_of n
    num_assistant_tokens assistant_confidence_threshold max_ngram_size skip_special_tokens
    modalities audio chunk_frames user logit_bias
"""
_OVMS: Final = {
    "chat": """
        messages max_tokens max_completion_tokens logprobs response_format tools tool_choice
        chat_template_kwargs top_logprobs functions parallel_tool_calls
    """,
    "completions": "prompt logprobs echo max_tokens",
    "responses": """
        input reasoning logprobs max_output_tokens tools tool_choice response_format
        chat_template_kwargs max_tokens instructions previous_response_id text store truncation
        metadata top_logprobs functions parallel_tool_calls
    """,
}
#: Members of OpenAI.
_OPENAI: Final = {
    "chat": """
        audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
        max_tokens messages metadata modalities model n parallel_tool_calls prediction
        presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format
        safety_identifier seed service_tier stop store stream stream_options temperature
        tool_choice tools top_logprobs top_p user verbosity web_search_options
    """,
    "completions": """
        best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty
        prompt seed stop stream stream_options suffix temperature top_p user
    """,
    "responses": """
        background conversation include input instructions max_output_tokens max_tool_calls
        metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key
        prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
        temperature text tool_choice tools top_logprobs top_p truncation user
    """,
}
#: vLLM's extra parameters.
_VLLM_COMMON: Final = """
    use_beam_search top_k min_p repetition_penalty length_penalty stop_token_ids
    include_stop_str_in_output ignore_eos min_tokens skip_special_tokens
    spaces_between_special_tokens truncate_prompt_tokens prompt_logprobs allowed_token_ids bad_words
    add_special_tokens guided_json guided_regex guided_choice guided_grammar structural_tag
    structured_outputs guided_decoding_backend guided_whitespace_pattern priority request_id
    logits_processors return_tokens_as_token_ids return_token_ids cache_salt kv_transfer_params
    vllm_xargs best_of
"""
_VLLM: Final = {
    "chat": _VLLM_COMMON
    + """
        echo add_generation_prompt continue_final_message documents chat_template
        chat_template_kwargs mm_processor_kwargs include_reasoning enable_thinking
        thinking_token_budget
    """,
    "completions": _VLLM_COMMON + "prompt_embeds",
    "responses": "",
}


@pytest.mark.parametrize("endpoint", TABLES)
def test_the_table_has_every_member(endpoint: str) -> None:
    known = " ".join((_OVMS_COMMON, _OVMS[endpoint], _OPENAI[endpoint], _VLLM[endpoint])).split()
    assert set(known) - set(TABLES[endpoint]) == set()


def outcomes(kind: type[Outcome]) -> list[Any]:
    return [
        pytest.param(endpoint, name, outcome, id=f"{endpoint}-{name}")
        for endpoint, table in TABLES.items()
        for name, found in table.items()
        for outcome in found
        if isinstance(outcome, kind)
    ]


def parse(endpoint: str, members: dict[str, Any]) -> CheckedRequest:
    body = {"model": "m", **_BODIES[endpoint], **_SEED, **members}
    request: CheckedRequest = _ENDPOINTS[endpoint].parse(body, RequestLimits(), ModelDefaults())
    if isinstance(request, ResponsesRequest):
        # Members that the answer only repeats change nothing else.
        return msgspec.structs.replace(request, echo={})
    return request


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(Effect))
def test_an_honoured_member_has_an_effect(endpoint: str, name: str, outcome: Effect) -> None:
    without = parse(endpoint, dict(outcome.beside))
    with_it = parse(endpoint, {**outcome.beside, name: outcome.value})
    assert outcome.shows(with_it) == outcome.expected
    assert outcome.shows(without) != outcome.expected


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(Refusal))
def test_a_refused_member_is_named(endpoint: str, name: str, outcome: Refusal) -> None:
    with pytest.raises(RequestError) as raised:
        parse(endpoint, {**outcome.beside, name: outcome.value})
    assert raised.value.param is not None
    assert raised.value.param.startswith(outcome.param or name)
    assert name in str(raised.value)


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(NoEffect))
def test_an_ignored_member_changes_nothing(endpoint: str, name: str, outcome: NoEffect) -> None:
    without = parse(endpoint, dict(outcome.beside))
    assert parse(endpoint, {**outcome.beside, name: outcome.value}) == without


@pytest.mark.parametrize("endpoint", TABLES)
def test_null_means_absent(endpoint: str) -> None:
    needed = {"model", *_BODIES[endpoint], *_SEED}
    assert parse(endpoint, {"unheard_of": None}) == parse(endpoint, {})
    nulls = {name: None for name in TABLES[endpoint] if name not in needed}
    assert parse(endpoint, nulls) == parse(endpoint, {})


@pytest.mark.parametrize("endpoint", TABLES)
def test_the_table_and_the_declaration_have_the_same_members(endpoint: str) -> None:
    assert set(TABLES[endpoint]) == set(_ENDPOINTS[endpoint].handling().members)


@pytest.mark.parametrize("endpoint", TABLES)
def test_the_declaration_says_what_becomes_of_a_member(endpoint: str) -> None:
    declared = _ENDPOINTS[endpoint].handling().members
    for name, found in TABLES[endpoint].items():
        if declared[name].standing is Standing.WITHOUT_EFFECT:
            assert all(isinstance(each, NoEffect) for each in found), name
        if declared[name].standing in (Standing.REFUSED, Standing.LEFT_OUT):
            assert not any(isinstance(each, Effect) for each in found), name


def sdk_members(method: str) -> set[str]:
    """Return the names of the parameters of a method of an official client."""
    # These libraries take seconds, in each process that collects tests if they were above.
    from anthropic.types import message_count_tokens_params as count_tokens_params
    from anthropic.types import message_create_params as messages_params
    from anthropic.types.beta import message_count_tokens_params as beta_count_tokens_params
    from anthropic.types.beta import message_create_params as beta_messages_params
    from openai.types import completion_create_params as completion_params
    from openai.types.chat import completion_create_params as chat_params
    from openai.types.responses import response_create_params as responses_params

    params: dict[str, Any] = {
        "chat.completions.create": chat_params.CompletionCreateParamsStreaming,
        "completions.create": completion_params.CompletionCreateParamsStreaming,
        "responses.create": responses_params.ResponseCreateParamsStreaming,
        "messages.create": messages_params.MessageCreateParamsStreaming,
        "beta.messages.create": beta_messages_params.MessageCreateParamsStreaming,
        "messages.count_tokens": count_tokens_params.MessageCountTokensParams,
        "beta.messages.count_tokens": beta_count_tokens_params.MessageCountTokensParams,
    }
    return set(typing.get_type_hints(params[method]))


@pytest.mark.parametrize(
    ("endpoint", "method"),
    [
        (endpoints.CHAT_COMPLETIONS, "chat.completions.create"),
        (endpoints.COMPLETIONS, "completions.create"),
        (endpoints.RESPONSES, "responses.create"),
        (endpoints.MESSAGES, "messages.create"),
        (endpoints.MESSAGES, "beta.messages.create"),
        (endpoints.COUNT_TOKENS, "messages.count_tokens"),
        (endpoints.COUNT_TOKENS, "beta.messages.count_tokens"),
    ],
)
def test_every_member_of_the_official_clients_is_known(endpoint: LlmEndpoint, method: str) -> None:
    assert sdk_members(method) - set(endpoint.handling().members) == set()


@pytest.mark.parametrize(
    ("endpoint", "member", "words"),
    [
        ("chat", "tempurature", 'Did you mean "temperature"'),
        ("chat", "max_token", '"max_tokens"'),
        ("chat", "reponse_format", '"response_format"'),
        ("chat", "repeat_penalty", '"repetition_penalty"'),
        ("chat", "max_new_tokens", 'use "max_tokens"'),
        ("chat", "extra_body", "an argument of OpenAI's client"),
        ("chat", "max_output_tokens", "/v3/responses has it, /v3/chat/completions does not"),
        ("chat", "x" * 100_000, "Unknown member"),
        ("completions", "messages", "/v3/chat/completions has it"),
        ("completions", "tools", "/v3/chat/completions has it"),
        ("responses", "messages", "/v3/chat/completions has it"),
        ("responses", "max_output_token", '"max_output_tokens"'),
    ],
)
def test_an_unknown_member_is_refused(endpoint: str, member: str, words: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse(endpoint, {member: 1})
    assert raised.value.param == member[:64]
    assert raised.value.reason == "unknown_parameter"
    assert words in str(raised.value)
    # The front sends the text without the paths of files.
    assert clean(str(raised.value)) == str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("endpoint", "members", "param"),
    [
        (
            "chat",
            {"stream": True, "stream_options": {"include_usge": True}},
            "stream_options.include_usge",
        ),
        ("responses", {"text": {"verbosty": "low"}}, "text.verbosty"),
        ("responses", {"reasoning": {"efort": "low"}}, "reasoning.efort"),
        (
            "chat",
            {"tools": [{"type": "function", "function": {"name": "f", "paramters": {}}}]},
            "tools[0].function.paramters",
        ),
    ],
)
def test_a_typo_in_an_object_is_refused_with_its_path(
    endpoint: str, members: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as raised:
        parse(endpoint, members)
    assert raised.value.param == param


def test_tools_may_have_members_of_their_own() -> None:
    function = {"name": "f", "parameters": {"type": "object"}, "title": "F", "returns": {}}
    tools = [{"type": "function", "function": function, "cache_control": {"type": "ephemeral"}}]
    assert parse("chat", {"tools": tools}).tools.items == tools  # type: ignore[attr-defined]
