"""Streams follow the law, and have the text of a unary answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.http_client import CHAT, COMPLETIONS, HELLO, HttpClient
from tests.process.stream_law import Streamed, read_stream

#: Continues until it has all its tokens, whatever the model would write.
LONG: dict[str, Any] = {"ignore_eos": True, "max_tokens": 60}
ASKED = {
    CHAT: {"messages": HELLO, "temperature": 0},
    COMPLETIONS: {"prompt": "Once upon a time", "temperature": 0},
}
both = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])


def streamed(client: HttpClient, path: str, **members: Any) -> Streamed:
    wants_usage = "stream_options" in members
    with client.stream(path, **{**ASKED[path], **members}) as response:
        return read_stream(response.read(), choices=members.get("n", 1), usage=wants_usage)


def whole(client: HttpClient, path: str, **members: Any) -> Any:
    reply = client.post(path, **{**ASKED[path], **members})
    assert reply.status == 200, reply.body
    return reply.json


def text_of(choice: dict[str, Any]) -> str:
    text: str = choice["message"]["content"] if "message" in choice else choice["text"]
    return text


@both
@pytest.mark.parametrize("members", [{"max_tokens": 40}, LONG], ids=["to the end", "cut"])
def test_a_stream_has_the_text_of_a_unary_answer(
    client: HttpClient, path: str, members: dict[str, Any]
) -> None:
    answer = whole(client, path, **members)
    stream = streamed(client, path, **members, stream_options={"include_usage": True})
    assert stream.text == text_of(answer["choices"][0])
    assert stream.finish_reason == answer["choices"][0]["finish_reason"]
    assert stream.usage == answer["usage"]
    assert stream.error is None


@both
def test_usage_is_sent_only_on_request(client: HttpClient, path: str) -> None:
    stream = streamed(client, path, max_tokens=3)
    assert stream.usage is None
    assert not any("usage" in chunk for chunk in stream.chunks)


@both
def test_text_arrives_piece_by_piece(client: HttpClient, path: str) -> None:
    # Tokens that follow each other closely are one piece; this many give several.
    stream = streamed(client, path, **{**LONG, "max_tokens": 600})
    assert len(stream.choices[0].pieces) > 2


@both
def test_one_stream_carries_several_choices(client: HttpClient, path: str) -> None:
    asked = {**LONG, "n": 3, "temperature": 1.0, "seed": 5}
    answer = whole(client, path, **asked)
    stream = streamed(client, path, **asked, stream_options={"include_usage": True})
    texts = [stream.choices[index].text for index in range(3)]
    assert len(set(texts)) == 3
    assert texts == [text_of(choice) for choice in answer["choices"]]
    assert stream.usage == answer["usage"]
    assert answer["usage"]["completion_tokens"] == 3 * LONG["max_tokens"]


@both
def test_greedy_choices_are_equal(client: HttpClient, path: str) -> None:
    stream = streamed(client, path, **LONG, n=2)
    assert stream.choices[0].text == stream.choices[1].text


@both
@pytest.mark.parametrize("is_included", [False, True])
def test_a_stop_string_ends_the_text_wherever_tokens_end(
    client: HttpClient, path: str, is_included: bool
) -> None:
    # Words of the answer itself: within one piece, and across several.
    text = text_of(whole(client, path, **LONG)["choices"][0])
    for stop in (text[7:9], text[12:24], [text[30:40], text[20:33]]):
        asked = {**LONG, "stop": stop, "include_stop_str_in_output": is_included}
        answer = whole(client, path, **asked)
        stream = streamed(client, path, **asked, stream_options={"include_usage": True})
        stops = [stop] if isinstance(stop, str) else stop
        end = min(text.index(each) + (len(each) if is_included else 0) for each in stops)
        assert stream.text == text[:end]
        assert stream.finish_reason == "stop"
        assert text_of(answer["choices"][0]) == stream.text
        assert answer["usage"] == stream.usage
        if not is_included:
            assert not any(each in piece for each in stops for piece in stream.choices[0].pieces)


def test_logprobs_of_a_chat_stream_are_those_of_the_unary_answer(client: HttpClient) -> None:
    asked = {**LONG, "logprobs": True}
    unary = whole(client, CHAT, **asked)["choices"][0]["logprobs"]["content"]
    stream = streamed(client, CHAT, **asked)
    entries = [entry for each in stream.choices[0].logprobs for entry in each["content"]]
    assert [entry["token"] for entry in entries] == [entry["token"] for entry in unary]
    assert len(entries) == LONG["max_tokens"]
    assert all(entry["logprob"] <= 0 for entry in entries)
    text = b"".join(bytes(entry["bytes"]) for entry in entries).decode(errors="replace")
    # Special tokens have bytes, and no text.
    assert len(text) >= len(stream.text)


def test_logprobs_of_a_completion_stream_are_those_of_the_unary_answer(client: HttpClient) -> None:
    asked = {**LONG, "logprobs": 1}
    unary = whole(client, COMPLETIONS, **asked)["choices"][0]["logprobs"]
    told = streamed(client, COMPLETIONS, **asked).choices[0].logprobs
    for name in ("tokens", "text_offset"):
        assert [value for each in told for value in each[name]] == unary[name]
    assert all(value <= 0 for each in told for value in each["token_logprobs"])


@both
def test_sampling_with_a_seed_can_be_repeated(client: HttpClient, path: str) -> None:
    asked = {**LONG, "temperature": 1.2, "seed": 11}
    first, second = (streamed(client, path, **asked).text for _ in range(2))
    assert first == second
    assert first != streamed(client, path, **{**asked, "seed": 12}).text


def test_several_prompts_are_answered_in_one_stream(client: HttpClient) -> None:
    prompts = ["Once upon a time", "Hello"]
    with client.stream(COMPLETIONS, prompt=prompts, temperature=0, max_tokens=20) as response:
        stream = read_stream(response.read(), choices=2)
    for index, prompt in enumerate(prompts):
        alone = whole(client, COMPLETIONS, prompt=prompt, max_tokens=20)
        assert stream.choices[index].text == text_of(alone["choices"][0])


def test_a_refused_stream_is_an_ordinary_error(client: HttpClient) -> None:
    reply = client.post(CHAT, messages=HELLO, stream=True, temperature=99)
    assert reply.status == 400
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.error["param"] == "temperature"


def test_a_connection_serves_request_after_request(client: HttpClient) -> None:
    # A stream ends with its last chunk, not with the connection.
    with client.stream(CHAT, messages=HELLO, max_tokens=3) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["Connection"] == "keep-alive"
        read_stream(response.read())
