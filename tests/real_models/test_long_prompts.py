"""Prompts up to the 8,192 tokens of SmolLM2, beyond them, and again from the prefix cache."""

from __future__ import annotations

from tests.process.http_client import COMPLETIONS, HttpClient
from tests.real_models.asking import MODEL, complete

CONTEXT = 8192


def one_word(client: HttpClient) -> int:
    """Return the id of a word that is one token."""
    ids: list[int] = client.post("/v3/tokenize", model=MODEL, text=" house").json["tokens"]
    (word,) = ids
    return word


def test_a_prompt_that_leaves_room_for_one_token_is_answered(client: HttpClient) -> None:
    prompt = [one_word(client)] * (CONTEXT - 1)
    body = complete(client, prompt, max_tokens=1)
    assert body["usage"]["prompt_tokens"] == CONTEXT - 1
    assert body["usage"]["completion_tokens"] == 1


def test_an_answer_ends_where_the_context_does(client: HttpClient) -> None:
    prompt = [one_word(client)] * (CONTEXT - 5)
    body = complete(client, prompt, ignore_eos=True)
    assert body["usage"]["completion_tokens"] == 5
    assert body["choices"][0]["finish_reason"] == "length"


def test_a_longer_prompt_is_refused_with_both_numbers(client: HttpClient) -> None:
    prompt = [one_word(client)] * (CONTEXT + 1)
    reply = client.post(COMPLETIONS, model=MODEL, prompt=prompt, max_tokens=1)
    assert reply.status == 400
    assert reply.error["code"] == "context_length_exceeded"
    assert str(CONTEXT) in reply.error["message"].replace(",", "")
    assert str(CONTEXT + 1) in reply.error["message"].replace(",", "")


def test_a_long_text_is_read_to_its_end(client: HttpClient) -> None:
    text = "The house is old. " * 600 + "\nThe capital of France is"
    body = complete(client, text, max_tokens=4)
    assert body["usage"]["prompt_tokens"] > 3000
    assert body["choices"][0]["text"].startswith(" Paris")


def test_a_prompt_that_begins_like_an_earlier_one_has_the_same_answer(client: HttpClient) -> None:
    """Its beginning comes from the cache, and so does all of it the second time."""
    text = "It was a quiet evening in the harbour of the town. " * 100
    complete(client, text + "The sailors", max_tokens=4)
    first = complete(client, text + "The children", max_tokens=4)
    again = complete(client, text + "The children", max_tokens=4)
    assert first["usage"] == again["usage"]
    assert first["choices"][0]["text"] == again["choices"][0]["text"]
