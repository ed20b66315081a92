"""Tokens of texts, and token counts of conversations, without an answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.http_client import CHAT, HELLO, HttpClient


@pytest.mark.parametrize("prefix", ["/v3", "/v1", "/v3/v1"])
def test_a_text_is_tokenized(client: HttpClient, prefix: str) -> None:
    reply = client.post(f"{prefix}/tokenize", text="Once upon a time")
    assert reply.status == 200
    assert set(reply.json) == {"tokens"}
    # The ids as a prompt give the same answer.
    asked: dict[str, Any] = {"temperature": 0, "max_tokens": 5, "echo": True}
    (choice,) = client.post(f"{prefix}/completions", prompt=reply.json["tokens"], **asked).json[
        "choices"
    ]
    assert choice["text"].startswith("Once upon a time")


def test_texts_are_tokenized_one_by_one(client: HttpClient) -> None:
    texts = ["Hello", "", "Once upon a time"]
    one_by_one = [client.post("/v3/tokenize", text=text).json["tokens"] for text in texts]
    assert client.post("/v3/tokenize", text=texts).json["tokens"] == one_by_one


def test_a_text_is_truncated_and_padded(client: HttpClient) -> None:
    whole = client.post("/v3/tokenize", text="Once upon a time").json["tokens"]
    cut = client.post("/v3/tokenize", text="Once upon a time", max_length=2)
    assert cut.json["tokens"] == whole[:2]
    padded = client.post(
        "/v3/tokenize",
        text="Once upon a time",
        max_length=len(whole) + 3,
        pad_to_max_length=True,
        padding_side="left",
    )
    assert padded.json["tokens"][3:] == whole


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v3/messages/count_tokens"])
def test_a_conversation_is_counted(client: HttpClient, path: str) -> None:
    answered = client.post(CHAT, messages=HELLO, max_tokens=1).json
    reply = client.post(path, messages=HELLO)
    assert reply.status == 200
    assert reply.json == {"input_tokens": answered["usage"]["prompt_tokens"]}


@pytest.mark.parametrize("words", [1_000, 30_000])
def test_conversations_longer_than_the_model_are_counted(client: HttpClient, words: int) -> None:
    counts = [
        client.post(
            "/v1/messages/count_tokens", messages=[{"role": "user", "content": "word " * count}]
        ).json["input_tokens"]
        for count in (words, 2 * words)
    ]
    assert counts[1] - counts[0] == words


def test_refusals_of_counting_have_the_clients_form(client: HttpClient) -> None:
    refused = client.post("/v3/tokenize")
    assert (refused.status, refused.error["param"]) == (400, "text")
    refused = client.post("/v1/messages/count_tokens", messages=[])
    assert refused.status == 400
    assert refused.json["type"] == "error"
    assert refused.json["error"]["type"] == "invalid_request_error"
