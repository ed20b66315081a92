"""Members of vLLM in answers of the real model: token ids, running usage, cut and open prompts."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import TOO_LONG
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

#: The length of the demo model.
LENGTH = 2048
USAGE = {"include_usage": True, "continuous_usage_stats": True}
URIS = [CHAT, COMPLETIONS]


def ids_of(text: str, *, special: bool) -> list[int]:
    ids: list[int] = (
        demo_tokenizer().encode(text, add_special_tokens=special).input_ids.data[0].tolist()
    )
    return ids


def text(ids: list[int]) -> str:
    decoded: str = demo_tokenizer().decode(ids)
    return decoded


def streamed_ids(answered: Answered, choice: int = 0) -> list[int]:
    return [
        each
        for event in answered.events
        for found in event["choices"]
        if found["index"] == choice
        for each in found["token_ids"]
    ]


# return_token_ids ---------------------------------------------------------------------------------


def test_a_chat_returns_the_ids_of_prompt_and_answer(ask: Asking) -> None:
    body = ask(CHAT, return_token_ids=True).body
    (choice,) = body["choices"]
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    assert len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    assert text(choice["token_ids"]) == choice["message"]["content"]
    # The prompt can be sent again as it is.
    again = ask(COMPLETIONS, prompt=body["prompt_token_ids"])
    assert text_of(again) == choice["message"]["content"]


def test_a_completion_returns_them_for_every_choice(ask: Asking) -> None:
    body = ask(COMPLETIONS, prompt=["One two", "Hello"], n=2, return_token_ids=True).body
    assert "prompt_token_ids" not in body
    first, second = (ids_of(prompt, special=True) for prompt in ("One two", "Hello"))
    choices = body["choices"]
    assert [each["prompt_token_ids"] for each in choices] == [first, first, second, second]
    for each in choices:
        assert text(each["token_ids"]) == each["text"]


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("more", [{}, {"n": 2}, {"logprobs": True}, {"stop": ["a"]}])
def test_ids_of_events_join_to_those_of_the_whole(
    ask: Asking, uri: str, more: dict[str, Any]
) -> None:
    if uri == COMPLETIONS and "logprobs" in more:
        more = {"logprobs": 1}
    asked = {"return_token_ids": True, "ignore_eos": True, "max_tokens": 100, **more}
    whole, streamed = ask(uri, **asked).body, ask(uri, **asked, stream=True)
    for choice in whole["choices"]:
        assert streamed_ids(streamed, choice["index"]) == choice["token_ids"]
    holders = streamed.events if uri == CHAT else [e["choices"][0] for e in streamed.events]
    prompts = [each["prompt_token_ids"] for each in holders if "prompt_token_ids" in each]
    expected = (whole if uri == CHAT else whole["choices"][0])["prompt_token_ids"]
    assert prompts == [expected] * (1 if uri == CHAT else more.get("n", 1))
    counted = sum(len(choice["token_ids"]) for choice in whole["choices"])
    assert counted == whole["usage"]["completion_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_ids_of_an_echoed_prompt_are_not_the_answers(ask: Asking, stream: bool) -> None:
    asked = {"echo": True, "max_tokens": 3, "ignore_eos": True, "return_token_ids": True}
    answered = ask(COMPLETIONS, **asked, stream=stream)
    ids = streamed_ids(answered) if stream else answered.body["choices"][0]["token_ids"]
    assert len(ids) == 3
    assert text_of(answered) == "The capital of France" + text(ids)


@pytest.mark.parametrize("uri", URIS)
def test_ids_are_not_there_unless_they_are_asked_for(ask: Asking, uri: str) -> None:
    for body in (ask(uri).body, ask(uri, return_token_ids=False).body):
        assert "prompt_token_ids" not in body
        assert not {"token_ids", "prompt_token_ids"} & body["choices"][0].keys()


# continuous_usage_stats ---------------------------------------------------------------------------


@pytest.mark.parametrize("uri", URIS)
def test_every_event_has_the_usage_so_far(ask: Asking, uri: str) -> None:
    asked = {"ignore_eos": True, "max_tokens": 200, "stream": True, "stream_options": USAGE}
    *events, last = ask(uri, **asked).events
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == last["usage"]["completion_tokens"] == 200
    assert last["choices"] == []
    assert {e["usage"]["prompt_tokens"] for e in events} == {last["usage"]["prompt_tokens"]}
    for event in events:
        usage = event["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert text_of(ask(uri, **asked)) == text_of(ask(uri, **{**asked, "stream_options": None}))


def test_running_usage_needs_usage(ask: Asking) -> None:
    only = ask(CHAT, stream=True, stream_options={"continuous_usage_stats": True})
    assert not any("usage" in event for event in only.events)


# truncate_prompt_tokens ---------------------------------------------------------------------------

LONG = "one two three four five six seven eight nine ten " * 400


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_completion_takes_the_end_or_the_beginning_of_a_prompt(ask: Asking, side: str) -> None:
    ids = ids_of(LONG, special=True)
    left = ids[-50:] if side == "left" else ids[:50]
    cut = ask(
        COMPLETIONS,
        prompt=LONG,
        truncate_prompt_tokens=50,
        truncation_side=side,
        return_token_ids=True,
    ).body
    assert cut["usage"]["prompt_tokens"] == 50
    assert cut["choices"][0]["prompt_token_ids"] == left
    assert cut["choices"][0]["text"] == text_of(ask(COMPLETIONS, prompt=left))
    of_ids = ask(COMPLETIONS, prompt=ids[:LENGTH], truncate_prompt_tokens=50, truncation_side=side)
    assert of_ids.body["usage"]["prompt_tokens"] == 50


def test_a_short_prompt_is_not_cut(ask: Asking) -> None:
    assert text_of(ask(COMPLETIONS, truncate_prompt_tokens=500)) == text_of(ask(COMPLETIONS))


@pytest.mark.parametrize("uri", [CHAT, COMPLETIONS, MESSAGES, RESPONSES])
def test_minus_one_keeps_what_the_model_holds_beside_the_answer(ask: Asking, uri: str) -> None:
    # Far longer than the model: without the member, the prompt is not even tokenized.
    long = LONG * 20
    limit = {"max_output_tokens" if uri == RESPONSES else "max_tokens": 10}
    prompt: dict[str, Any] = (
        {"input": long}
        if uri == RESPONSES
        else {"prompt": long}
        if uri == COMPLETIONS
        else {"messages": [{"role": "user", "content": long}]}
    )
    with pytest.raises(RequestError) as raised:
        ask(uri, **prompt, **limit)
    assert raised.value.reason == TOO_LONG
    usage = ask(uri, **prompt, **limit, truncate_prompt_tokens=-1).body["usage"]
    room = LENGTH - (1 if uri == MESSAGES else 10)
    assert usage.get("prompt_tokens", usage.get("input_tokens")) == room


def test_more_than_the_model_holds_is_refused(ask: Asking) -> None:
    with pytest.raises(RequestError, match="above the maximum 2024") as raised:
        ask(COMPLETIONS, truncate_prompt_tokens=2025)
    assert raised.value.param == "truncate_prompt_tokens"
    assert ask(COMPLETIONS, truncate_prompt_tokens=2024).body["choices"]


# continue_final_message ---------------------------------------------------------------------------

OPEN = [
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "The capital"},
]


def test_an_answer_goes_on_with_the_last_message(ask: Asking) -> None:
    body = ask(CHAT, messages=OPEN, continue_final_message=True, return_token_ids=True).body
    prompt = demo_tokenizer().decode(body["prompt_token_ids"], skip_special_tokens=False)
    assert prompt.endswith("<|im_start|>assistant\nThe capital")
    assert (
        text_of(ask(COMPLETIONS, prompt=body["prompt_token_ids"]))
        == (body["choices"][0]["message"]["content"])
    )


def test_anthropics_last_message_of_the_assistant_is_continued(ask: Asking) -> None:
    continued = ask(CHAT, messages=OPEN, continue_final_message=True)
    answered = ask(MESSAGES, messages=OPEN)
    (block,) = answered.body["content"]
    assert block["text"] == text_of(continued)
    responses = ask(RESPONSES, input=OPEN, continue_final_message=True).body
    assert responses["output"][-1]["content"][0]["text"] == text_of(continued)


# max_tokens ---------------------------------------------------------------------------------------


def test_a_limit_that_every_request_must_have_may_be_more_than_the_model_holds(
    ask: Asking,
) -> None:
    """Vercel's provider sends ``max_tokens: 4096`` for models that it does not know."""
    long = [{"role": "user", "content": LONG[: len(LONG) // 4]}]
    body = ask(MESSAGES, messages=long, max_tokens=4096).body
    assert body["content"][0]["text"]
    with pytest.raises(RequestError, match="4096 tokens of answer") as raised:
        ask(CHAT, messages=long, max_tokens=4096)
    assert raised.value.reason == TOO_LONG
