"""Parsing of completion requests, except for sampling."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.api.openai.bodies import completion, completion_refusal


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("hi", ("hi",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        ([0, 2**31 - 1], ((0, 2**31 - 1),)),
    ],
)
def test_prompts_are_text_or_token_ids(prompt: Any, prompts: tuple[Any, ...]) -> None:
    assert completion(prompt=prompt).prompts == prompts


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("", "prompt"),
        (5, "prompt"),
        ({"a": 1}, "prompt"),
        ([], "prompt"),
        ([[]], "prompt[0]"),
        (["a", ""], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        ([["a"]], "prompt[0][0]"),
        ([1, "a"], "prompt[1]"),
        ([1, [2]], "prompt[1]"),
        ([[1], 2], "prompt[1]"),
        ([[1], [2, -1]], "prompt[1][1]"),
        ([None], "prompt[0]"),
        ([-1], "prompt[0]"),
        ([1, 2**63], "prompt[1]"),
        ([1.5], "prompt[0]"),
        ([True], "prompt[0]"),
    ],
)
def test_prompts_of_other_types_are_refused(prompt: Any, param: str) -> None:
    assert completion_refusal(prompt=prompt).param == param


def test_the_number_of_prompts_is_limited_but_not_that_of_token_ids() -> None:
    limits = RequestLimits(max_prompts=2)
    assert len(completion(limits, prompt=["a", "b"]).prompts) == 2
    assert completion_refusal(limits, prompt=["a"] * 3).param == "prompt"
    assert completion_refusal(limits, prompt=[[1]] * 3).param == "prompt"
    assert completion(limits, prompt=[1] * 1000).prompts == ((1,) * 1000,)


def test_a_chat_body_is_refused_with_the_right_endpoint() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert "/chat/completions" in str(completion_refusal(prompt=None, messages=messages))


def test_echo_repeats_the_prompt() -> None:
    assert completion(echo=True).echo
    assert not completion().echo
    assert completion_refusal(echo="x").param == "echo"


@pytest.mark.parametrize("value", [True, False, "x", 0.5, 2, 5, -1])
def test_log_probabilities_are_those_of_the_chosen_tokens(value: Any) -> None:
    assert completion_refusal(logprobs=value).param == "logprobs"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"suffix": 1}, "suffix"),
        ({"suffix": "end", "echo": True}, "echo"),
        ({"suffix": "end", "truncate_prompt_tokens": 4}, "truncate_prompt_tokens"),
        ({"suffix": "end", "prompt": [1, 2]}, "prompt"),
        ({"suffix": "", "prompt": ""}, "prompt"),
        ({"prompt_embeds": "AAAA"}, "prompt_embeds"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"model": None}, "model"),
    ],
)
def test_members_that_cannot_be_honoured_are_refused(members: dict[str, Any], param: str) -> None:
    assert completion_refusal(**members).param == param
