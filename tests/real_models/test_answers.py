"""Chat, completions and log-probabilities of SmolLM2."""

from __future__ import annotations

import math

import pytest

from tests.process.http_client import CHAT, HttpClient
from tests.real_models.asking import FRANCE, chat, complete, events, message

#: Text that the model knows, one token a word.
TEXT = "The capital of France is Paris, and the capital of Italy is Rome."


def test_a_question_is_answered(scoring: HttpClient) -> None:
    # By the file's own numbers "The" is 0.08 ahead of "L", which begins a text without an end:
    # llama.cpp rounds inputs to 8 bits, as graphrt does by default, and both begin with "L".
    body = chat(scoring)
    assert message(body)["content"] == "The capital of France is Paris."
    assert body["choices"][0]["finish_reason"] == "stop"


def test_a_streamed_answer_equals_the_whole_one(client: HttpClient) -> None:
    whole = message(chat(client))["content"]
    asked = [{"role": "user", "content": FRANCE}]
    streamed = events(client, CHAT, messages=asked, max_tokens=60)
    deltas = [each["choices"][0]["delta"] for each in streamed if each["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == whole


def test_earlier_turns_are_read(client: HttpClient) -> None:
    turns = [
        {"role": "user", "content": "My cat is called Misty."},
        {"role": "assistant", "content": "Misty is a beautiful name."},
        {"role": "user", "content": "What is the name of my cat?"},
    ]
    assert "Misty" in message(chat(client, messages=turns))["content"]


def test_text_goes_on(client: HttpClient) -> None:
    (choice,) = complete(client, "The capital of France is", max_tokens=8)["choices"]
    assert choice["text"].startswith(" Paris")


@pytest.mark.parametrize("text", [TEXT, "Grüße, 你好, 👩‍👩‍👧 and tabs\t\tand  spaces"])
def test_an_echoed_text_comes_back_with_the_tokens_that_it_has(
    scoring: HttpClient, text: str
) -> None:
    (choice,) = complete(scoring, text, echo=True, logprobs=1, max_tokens=0)["choices"]
    assert choice["text"] == text
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"])
    assert logprobs["token_logprobs"][0] is None
    assert all(each <= 0 for each in logprobs["token_logprobs"][1:])
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets)


def test_the_most_likely_end_of_a_text_is_the_one_that_the_model_would_write(
    scoring: HttpClient,
) -> None:
    begin = "The capital of France is"
    wrote = complete(scoring, begin, max_tokens=1, logprobs=1)["choices"][0]
    (chosen,) = wrote["logprobs"]["token_logprobs"]
    scores = {word: _score(scoring, begin, f" {word}") for word in ("Paris", "London", "Banana")}
    assert wrote["text"] == " Paris"
    assert math.isclose(scores["Paris"], chosen, abs_tol=1e-3)
    assert scores["Paris"] > scores["London"] > scores["Banana"]


def test_a_scored_text_is_the_sum_of_its_parts(scoring: HttpClient) -> None:
    """A continuation scored at once, and token by token, each with the text before as prompt.

    Only with the file's own numbers: in a cache of 8 bits the scale of a key depends on the tokens
    after it, and these sums then differ by up to 0.35.
    """
    begin, end = "Water freezes at zero degrees", " Celsius and boils at"
    whole = _logprobs(scoring, begin + end)
    before = len(_logprobs(scoring, begin))
    ids = _ids(scoring, begin + end)
    assert len(ids) == len(whole)
    parts = [_logprobs(scoring, ids[: n + 1])[-1] for n in range(before, len(ids))]
    assert sum(whole[before:]) == pytest.approx(sum(parts), abs=1e-3)


def _score(client: HttpClient, begin: str, end: str) -> float:
    return sum(_logprobs(client, begin + end)[len(_logprobs(client, begin)) :])


def _logprobs(client: HttpClient, prompt: object) -> list[float]:
    (choice,) = complete(client, prompt, echo=True, logprobs=1, max_tokens=0)["choices"]
    found: list[float] = choice["logprobs"]["token_logprobs"]
    return found


def _ids(scoring: HttpClient, text: str) -> list[int]:
    reply = scoring.post("/v3/tokenize", model="smollm2", text=text)
    ids: list[int] = reply.json["tokens"]
    return ids
