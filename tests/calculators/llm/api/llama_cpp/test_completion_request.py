"""Bodies of `/completion` and `/infill`: what each member becomes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import ClientConnection, NoClient, RequestError
from calculators.language.generation_request import Api, GenerationRequest, Infill
from calculators.llm.api.llama_cpp import (
    parse_infill_request,
    parse_llama_cpp_completion,
)
from calculators.llm.api.neutral_request import neutral_request, resolved_request
from calculators.llm.requests.completions_request import CompletionRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

LIMITS = RequestLimits(max_model_length=4096)
DEFAULTS = ModelDefaults(eos_token_ids=(2,))
FILES = {"input_prefix": "a", "input_suffix": "b"}
CLIENT: ClientConnection = NoClient()


def completion(**body: Any) -> CompletionRequest:
    return parse_llama_cpp_completion({"prompt": "x", **body}, LIMITS, DEFAULTS)


def infill(**body: Any) -> CompletionRequest:
    return parse_infill_request({**FILES, **body}, LIMITS, DEFAULTS)


def neutral(**body: Any) -> GenerationRequest:
    return neutral_request(infill(**body), Api.INFILL, {**FILES, **body}, CLIENT, None)


def test_members_have_openais_meaning_under_llama_cpps_names() -> None:
    asked = completion(
        n_predict=9, n_cmpl=2, repeat_penalty=1.2, seed=-1, top_k=40, stop=["\n"], stream=True
    )
    settings = asked.settings
    assert (settings.max_new_tokens, asked.n, settings.repetition_penalty) == (9, 2, 1.2)
    assert settings.stop_strings == ("\n",)
    assert asked.stream
    assert not asked.limits_itself, "an editor asks for more than is left"
    assert completion(n_predict=-1).settings.max_new_tokens is None
    assert completion(prompt=[1, 2]).prompts == ((1, 2),)
    for name, form in (("grammar", 'root ::= "a"'), ("json_schema", {"type": "object"})):
        structured = completion(**{name: form}).structured
        assert structured is not None
        assert structured.param == name


def test_a_gap_has_what_is_around_it() -> None:
    asked = infill(
        input_extra=[{"text": "t", "filename": "f.py", "time": [1, 2]}, {"text": "u"}],
        prompt="    ",
        n_indent=4,
        t_max_predict_ms=250,
    )
    assert asked.prompts == ("a",)
    assert asked.infill == Infill("b", (("f.py", "t"), ("tmp", "u")), "    ", True)
    assert (asked.least_indent, asked.most_seconds) == (4, 0.25)
    assert completion(suffix="b").infill == Infill("b", is_cut=True)


def test_a_prompt_that_is_only_computed_generates_nothing_to_show() -> None:
    asked = infill(n_predict=0, input_prefix="", input_suffix="", response_fields=[""])
    assert asked.settings.max_new_tokens == 1
    assert asked.shown == {"n_predict": 0, "response_fields": [""]}


def test_nodes_get_all_of_it() -> None:
    request = neutral(
        model="m", n_predict=5, n_indent=4, t_max_predict_ms=250, temperature=0.5, stop="x"
    )
    again = resolved_request(request, LIMITS, DEFAULTS)
    assert isinstance(again, CompletionRequest)
    assert again.infill == Infill("b", is_cut=True)
    assert (again.least_indent, again.most_seconds, again.settings.max_new_tokens) == (4, 0.25, 5)
    assert again.settings.stop_strings == ("x",)
    assert not again.limits_itself
    assert request.with_system("S").prompts == ("S\n\na",)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n_predict": -2}, "n_predict"),
        ({"n_predict": "8"}, "n_predict"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"n_cmpl": 1000}, "n_cmpl"),
        ({"n_probs": 3}, "n_probs"),
        ({"logit_bias": [[1, 2]]}, "logit_bias"),
        ({"response_fields": [1]}, "response_fields[0]"),
        ({"response_fields": "content"}, "response_fields"),
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": 1}, "input_suffix"),
        ({"input_extra": "x"}, "input_extra"),
        ({"input_extra": ["x"]}, "input_extra[0]"),
        ({"input_extra": [{"filename": "x"}]}, "input_extra[0].text"),
        ({"input_extra": [{"text": 1}]}, "input_extra[0].text"),
        ({"prompt": ["a"]}, "prompt"),
        ({"grammar": 1}, "grammar"),
        ({"json_schema": "x"}, "json_schema"),
        ({"n_predct": 3}, "n_predct"),
    ],
)
def test_a_wrong_member_is_named_as_the_client_wrote_it(body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        infill(**body)
    assert caught.value.param == param
    assert f'"{param}"' in str(caught.value)


def test_samplers_that_the_engine_lacks_change_nothing() -> None:
    plain = infill()
    same = infill(samplers=["infill"], cache_prompt=True, id_slot=0, dry_multiplier=1, mirostat=2)
    assert same.settings.top_p == plain.settings.top_p
    assert same.members == plain.members
