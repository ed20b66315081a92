"""Every member that a client may send has an effect, or is refused by name, or may be ignored.

What would change the answer and cannot be honoured is refused, never dropped. The names are those
of OpenVINO Model Server, of OpenAI's API reference, and of vLLM's extra parameters.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import pytest

from calculators.http_payload import RequestError
from calculators.llm.openai.chat_request import parse_chat_request
from calculators.llm.openai.completion_request import parse_completion_request
from calculators.llm.openai.generation_request import GenerationRequest
from calculators.llm.openai.model_defaults import ModelDefaults
from calculators.llm.openai.request_limits import RequestLimits
from calculators.llm.openai.responses_request import ResponsesRequest, parse_responses_request
from tests.calculators.llm.openai.field_outcomes import Effect, NoEffect, Outcome, Refusal, Table
from tests.calculators.llm.openai.field_tables import CHAT, COMPLETIONS, RESPONSES

TABLES: Final[dict[str, Table]] = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "responses": RESPONSES,
}
_PARSE: Final = {
    "chat": parse_chat_request,
    "completions": parse_completion_request,
    "responses": parse_responses_request,
}
_BODIES: Final[dict[str, dict[str, Any]]] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
}
#: With a fixed seed two equal requests are equal.
_SEED: Final = {"seed": 1}

#: OpenVINO Model Server's, by endpoint.
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
#: OpenAI's.
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
def test_the_table_has_every_member_there_is(endpoint: str) -> None:
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


def parse(endpoint: str, members: dict[str, Any]) -> GenerationRequest:
    body = {"model": "m", **_BODIES[endpoint], **_SEED, **members}
    request = _PARSE[endpoint](body, RequestLimits(), ModelDefaults())
    if isinstance(request, ResponsesRequest):
        # What the answer repeats changes nothing else.
        return dataclasses.replace(request, echo={})
    return request


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(Effect))
def test_it_has_an_effect(endpoint: str, name: str, outcome: Effect) -> None:
    without = parse(endpoint, dict(outcome.beside))
    with_it = parse(endpoint, {**outcome.beside, name: outcome.value})
    assert outcome.shows(with_it) == outcome.expected
    assert outcome.shows(without) != outcome.expected


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(Refusal))
def test_it_is_refused_by_name(endpoint: str, name: str, outcome: Refusal) -> None:
    with pytest.raises(RequestError) as raised:
        parse(endpoint, {**outcome.beside, name: outcome.value})
    assert raised.value.param is not None
    assert raised.value.param.startswith(outcome.param or name)
    assert name in str(raised.value)


@pytest.mark.parametrize(("endpoint", "name", "outcome"), outcomes(NoEffect))
def test_it_changes_nothing(endpoint: str, name: str, outcome: NoEffect) -> None:
    without = parse(endpoint, dict(outcome.beside))
    assert parse(endpoint, {**outcome.beside, name: outcome.value}) == without


@pytest.mark.parametrize("endpoint", TABLES)
def test_null_is_as_good_as_absent(endpoint: str) -> None:
    needed = {"model", *_BODIES[endpoint], *_SEED}
    nulls = {name: None for name in TABLES[endpoint] if name not in needed}
    assert parse(endpoint, nulls) == parse(endpoint, {})


def test_a_member_that_nobody_knows_changes_nothing() -> None:
    assert parse("chat", {"unheard_of": [1]}) == parse("chat", {})
