"""Chat and completion answers of the real model through a graph, whole and streamed."""

from __future__ import annotations

import asyncio
from typing import Any

import openvino_genai as genai
import pytest

from tests.calculators.llm.demo_model import DEMO, demo_tokenizer
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, Answered, Asking, request, text_of

URIS = [CHAT, COMPLETIONS]


@pytest.fixture(scope="module")
def library() -> Any:
    return genai.ContinuousBatchingPipeline(str(DEMO), genai.SchedulerConfig(), "CPU", {})


def prompt_of(uri: str) -> str:
    asked = request(uri)
    if uri == COMPLETIONS:
        return str(asked["prompt"])
    content = asked["messages"][0]["content"]
    return f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"


def reasons_of(answered: Answered) -> list[tuple[int, str]]:
    """Return every finish reason of a stream, with its choice."""
    return [
        (choice["index"], choice["finish_reason"])
        for event in answered.events
        for choice in event["choices"]
        if choice["finish_reason"] is not None
    ]


@pytest.mark.parametrize("uri", URIS)
def test_a_greedy_answer_is_that_of_the_library(ask: Asking, library: Any, uri: str) -> None:
    config = genai.GenerationConfig()
    config.apply_chat_template = False
    config.max_new_tokens = 24
    tokens = demo_tokenizer().encode(prompt_of(uri), add_special_tokens=uri == COMPLETIONS)
    (expected,) = library.generate([tokens.input_ids], [config])
    (ids,) = expected.m_generation_ids
    body = ask(uri).body
    assert text_of(ask(uri)) == demo_tokenizer().decode(ids)
    usage = body["usage"]
    assert usage.pop("completion_tokens_details", None) == (
        {"reasoning_tokens": 0} if uri == CHAT else None
    )
    assert usage == {
        "prompt_tokens": tokens.input_ids.shape[1],
        "completion_tokens": len(ids),
        "total_tokens": tokens.input_ids.shape[1] + len(ids),
    }
    assert body["choices"][0]["finish_reason"] == ("stop" if len(ids) < 24 else "length")


@pytest.mark.parametrize("uri", URIS)
def test_a_stream_joins_to_the_whole_answer(ask: Asking, uri: str) -> None:
    # Tokens that follow each other closely are one piece; this many give more than one.
    asked = {"ignore_eos": True, "max_tokens": 300}
    streamed, answered = ask(uri, stream=True, **asked), ask(uri, **asked)
    whole = answered.body
    assert text_of(streamed) == text_of(answered)
    assert reasons_of(streamed) == [(0, whole["choices"][0]["finish_reason"])]
    assert len(streamed.values) > 1
    assert {event["id"] for event in streamed.events} == {streamed.events[0]["id"]}


@pytest.mark.parametrize("uri", URIS)
def test_usage_is_sent_last_on_request(ask: Asking, uri: str) -> None:
    streamed = ask(uri, stream=True, stream_options={"include_usage": True})
    *others, last = streamed.events
    assert last["choices"] == []
    assert last["usage"] == ask(uri).body["usage"]
    assert all(event["usage"] is None for event in others)
    assert not any("usage" in event and event["usage"] for event in ask(uri, stream=True).events)


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("stream", [True, False])
def test_samples_have_a_choice_each(ask: Asking, uri: str, stream: bool) -> None:
    asked = {"n": 3, "temperature": 1.5, "seed": 5, "max_tokens": 12, "stream": stream}
    first, again = ask(uri, **asked), ask(uri, **asked)
    texts = [text_of(first, choice=index) for index in range(3)]
    assert texts == [text_of(again, choice=index) for index in range(3)]
    if stream:
        assert sorted(index for index, _ in reasons_of(first)) == [0, 1, 2]
    else:
        assert [choice["index"] for choice in first.body["choices"]] == [0, 1, 2]
        unstreamed = ask(uri, **{**asked, "stream": True})
        assert texts == [text_of(unstreamed, choice=index) for index in range(3)]


@pytest.mark.parametrize("stream", [True, False])
def test_greedy_choices_are_copies_and_each_counts(ask: Asking, stream: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    answered = ask(CHAT, n=3, stream=stream, **options)
    assert len({text_of(answered, choice=index) for index in range(3)}) == 1
    usage = answered.events[-1]["usage"] if stream else answered.body["usage"]
    alone = ask(CHAT).body["usage"]
    assert usage["completion_tokens"] == 3 * alone["completion_tokens"]
    assert usage["prompt_tokens"] == alone["prompt_tokens"]


def test_beams_come_best_first(ask: Asking) -> None:
    several = ask(COMPLETIONS, n=3, best_of=4, max_tokens=8)
    one = ask(COMPLETIONS, best_of=4, max_tokens=8)
    assert text_of(several) == text_of(one)
    assert len(several.body["choices"]) == 3


def test_a_batch_of_prompts_is_answered_prompt_by_prompt(ask: Asking) -> None:
    prompts = ["The capital of France", "1 2 3", "Hello"]
    alone = [text_of(ask(COMPLETIONS, prompt=prompt)) for prompt in prompts]
    for stream in (False, True):
        batch = ask(COMPLETIONS, prompt=prompts, stream=stream)
        assert [text_of(batch, choice=index) for index in range(3)] == alone


def test_token_ids_give_the_answer_of_their_text(ask: Asking) -> None:
    ids = demo_tokenizer().encode("The capital of France").input_ids.data[0].tolist()
    assert text_of(ask(COMPLETIONS, prompt=ids)) == text_of(ask(COMPLETIONS))
    both = ask(COMPLETIONS, prompt=[ids, ids])
    assert text_of(both, choice=1) == text_of(ask(COMPLETIONS))


def test_concurrent_requests_get_their_own_answers(ask: Asking) -> None:
    prompts = [f"Number {number} is" for number in range(10)]
    alone = [text_of(ask(COMPLETIONS, prompt=prompt)) for prompt in prompts]

    async def together() -> list[Answered]:
        asked = [
            ask.answer(COMPLETIONS, request(COMPLETIONS, prompt=prompt, stream=number % 2 == 0))
            for number, prompt in enumerate(prompts)
        ]
        return await asyncio.gather(*asked)

    assert [text_of(answered) for answered in ask.runner.run(together())] == alone


# Log-probabilities and echo -----------------------------------------------------------------------


def streamed_logprobs(answered: Answered) -> list[dict[str, Any]]:
    return [
        entry
        for event in answered.events
        for choice in event["choices"]
        for entry in (choice["logprobs"] or {}).get("content", [])
    ]


def test_chat_log_probabilities_belong_to_the_text(ask: Asking) -> None:
    body = ask(CHAT, logprobs=True, max_tokens=12).body
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == body["usage"]["completion_tokens"]
    assert all(entry["logprob"] <= 0 for entry in content)
    spelled = bytes(each for entry in content for each in entry["bytes"]).decode()
    assert spelled.startswith(body["choices"][0]["message"]["content"])
    assert streamed_logprobs(ask(CHAT, logprobs=True, max_tokens=12, stream=True)) == content


def test_an_echo_begins_with_the_prompt(ask: Asking) -> None:
    plain = text_of(ask(COMPLETIONS, max_tokens=6))
    for stream in (False, True):
        answered = ask(COMPLETIONS, max_tokens=6, echo=True, stream=stream)
        assert text_of(answered) == "The capital of France" + plain
    assert ask(COMPLETIONS, max_tokens=6, echo=True).body["usage"]["completion_tokens"] <= 6


def test_an_echo_has_the_log_probabilities_of_the_prompt(ask: Asking) -> None:
    choice = ask(COMPLETIONS, max_tokens=6, echo=True, logprobs=1).body["choices"][0]
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    assert all(each <= 0 for each in logprobs["token_logprobs"][1:])
    assert "".join(logprobs["tokens"]).startswith("The capital of France")
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"][offset:].startswith(token) or offset == len(choice["text"])


def test_an_echo_alone_is_the_prompt(ask: Asking) -> None:
    body = ask(COMPLETIONS, max_tokens=0, echo=True).body
    assert body["choices"][0]["text"] == "The capital of France"


# Stop strings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_stop_string_ends_the_text_and_is_not_in_it(ask: Asking, uri: str, length: int) -> None:
    full = text_of(ask(uri, ignore_eos=True))
    stop = full[4 : 4 + length]
    expected = full[: full.index(stop)]
    whole = ask(uri, stop=stop, ignore_eos=True)
    assert text_of(whole) == expected
    assert whole.body["choices"][0]["finish_reason"] == "stop"
    streamed = ask(uri, stop=[stop, "never seen"], stream=True, ignore_eos=True)
    assert text_of(streamed) == expected
    assert reasons_of(streamed) == [(0, "stop")]


@pytest.mark.parametrize("stream", [True, False])
def test_a_stop_string_is_included_on_request(ask: Asking, stream: bool) -> None:
    full = text_of(ask(CHAT))
    stop = full[4:8]
    answered = ask(CHAT, stop=stop, include_stop_str_in_output=True, stream=stream)
    assert text_of(answered) == full[: full.index(stop) + len(stop)]


def test_text_held_back_for_a_stop_string_is_sent_at_the_end(ask: Asking) -> None:
    full = text_of(ask(CHAT))
    streamed = ask(CHAT, stop=full[-3:] + "never", stream=True)
    assert text_of(streamed) == full


def test_a_stop_token_ends_the_answer(ask: Asking) -> None:
    content = ask(CHAT, logprobs=True).body["choices"][0]["logprobs"]["content"]
    vocabulary = demo_tokenizer().get_vocab()
    token = vocabulary[bytes(content[2]["bytes"])]
    body = ask(CHAT, stop_token_ids=[token]).body
    assert body["usage"]["completion_tokens"] <= 3
    assert body["choices"][0]["finish_reason"] == "stop"
