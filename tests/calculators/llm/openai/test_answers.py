"""The bodies and events of answers, read as a client reads them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from calculators.llm.openai.chat_response import ChatStreamWriter, chat_completion
from calculators.llm.openai.completion_response import (
    CompletionStreamWriter,
    completion,
)
from calculators.llm.openai.finish_reason import FinishReason, finish_reason
from calculators.llm.openai.response import DONE, AnswerChoice, ResponseHead, new_response_id
from calculators.llm.openai.token_logprob import TokenLogprob
from calculators.llm.openai.usage import Usage

HEAD = ResponseHead("chatcmpl-1", 'a "model"', 123)
USAGE = Usage(3, 4)
TRICKY = 'quote " backslash \\ line\nend\r tab\t nul\0 \x1c \x85 \u2028 \u2029 é 漢 😀 \x7f'


def event(text: str) -> dict[str, Any]:
    """The JSON of one server-sent event."""
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    data = text.removeprefix("data: ").removesuffix("\n\n")
    # Clients split streams with str.splitlines, which knows more line ends than SSE does.
    assert len(data.splitlines()) == 1
    data.encode()
    value = json.loads(data)
    assert isinstance(value, dict)
    return value


def test_a_chat_answer() -> None:
    choices = [
        AnswerChoice("Hello", FinishReason.STOP),
        AnswerChoice("", FinishReason.LENGTH, [TokenLogprob("H", b"H", -0.5)]),
    ]
    assert json.loads(chat_completion(HEAD, choices, USAGE)) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 123,
        "model": 'a "model"',
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            },
            {
                "index": 1,
                "message": {"role": "assistant", "content": "", "refusal": None},
                "logprobs": {
                    "content": [{"token": "H", "logprob": -0.5, "bytes": [72], "top_logprobs": []}],
                    "refusal": None,
                },
                "finish_reason": "length",
            },
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def test_a_completion_answer() -> None:
    head = ResponseHead("cmpl-1", "m", 123, "fp")
    choices = [AnswerChoice("Hello", FinishReason.STOP)]
    assert json.loads(completion(head, choices, Usage(3, 4, 2))) == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 123,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


def test_the_events_of_a_chat() -> None:
    writer = ChatStreamWriter(HEAD, n=2)
    common = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 123,
        "model": 'a "model"',
        "system_fingerprint": None,
    }

    def chunk(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**common, "choices": [choice]}

    assert event(writer.role(0)) == chunk(0, {"role": "assistant", "content": ""})
    assert event(writer.content(1, "Hi")) == chunk(1, {"content": "Hi"})
    assert event(writer.finish(1, FinishReason.LENGTH)) == chunk(1, {}, "length")
    assert event(writer.usage(USAGE)) == {
        **common,
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
    assert DONE == "data: [DONE]\n\n"


def test_the_events_of_a_completion() -> None:
    writer = CompletionStreamWriter(HEAD, choices=2)
    body = event(writer.text(1, "Hi"))
    assert body["object"] == "text_completion"
    assert body["choices"] == [{"index": 1, "text": "Hi", "logprobs": None, "finish_reason": None}]
    assert event(writer.finish(0, FinishReason.STOP))["choices"] == [
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    ]
    assert event(writer.usage(USAGE))["choices"] == []


@pytest.mark.parametrize("include_usage", [False, True])
def test_usage_is_null_in_every_event_of_a_stream_that_ends_with_it(include_usage: bool) -> None:
    chat = ChatStreamWriter(HEAD, include_usage=include_usage)
    text = CompletionStreamWriter(HEAD, include_usage=include_usage)
    logprobs = [TokenLogprob("a", b"a", -1.0)]
    for written in (
        chat.role(0),
        chat.content(0, "a"),
        chat.content(0, "a", logprobs),
        chat.finish(0, FinishReason.STOP),
        text.text(0, "a"),
        text.text(0, "a", logprobs),
        text.finish(0, FinishReason.STOP),
    ):
        body = event(written)
        assert ("usage" in body) is include_usage
        assert body.get("usage") is None


def test_any_text_arrives_as_it_was() -> None:
    for text in (TRICKY, *map(chr, range(0x100)), "\ud7ff\ue000\uffff"):
        assert event(ChatStreamWriter(HEAD).content(0, text))["choices"][0]["delta"] == {
            "content": text
        }
        assert event(CompletionStreamWriter(HEAD).text(0, text))["choices"][0]["text"] == text
    whole = chat_completion(HEAD, [AnswerChoice(TRICKY, FinishReason.STOP)], USAGE)
    assert json.loads(whole.encode())["choices"][0]["message"]["content"] == TRICKY


def test_half_a_surrogate_pair_is_replaced() -> None:
    written = ChatStreamWriter(HEAD).content(0, "a\ud800b")
    assert event(written)["choices"][0]["delta"]["content"] == "a\ufffdb"


def test_ids_are_fresh() -> None:
    ids = {new_response_id("chatcmpl") for _ in range(10)}
    assert len(ids) == 10
    assert all(re.fullmatch("chatcmpl-[0-9a-f]{32}", each) for each in ids)


@pytest.mark.parametrize(
    ("engine", "wire"),
    [("stop", "stop"), ("length", "length"), ("cache", "length"), ("eos", "stop")],
)
def test_finish_reasons_are_those_that_clients_know(engine: str, wire: str) -> None:
    assert finish_reason(engine) == wire


class TestLogprobs:
    TOKENS = (
        TokenLogprob("a", b"a", -0.25),
        TokenLogprob("\ufffd", b"\xc3", float("-inf")),
        TokenLogprob("\ufffd", b"\xa9", 1.0),
        TokenLogprob("漢x", "漢x".encode(), float("nan")),
        TokenLogprob("", b"", 0.0),
    )

    def test_of_a_chat_are_always_numbers(self) -> None:
        written = ChatStreamWriter(HEAD).content(0, "aé漢x", self.TOKENS)
        content = event(written)["choices"][0]["logprobs"]["content"]
        assert [token["logprob"] for token in content] == [-0.25, -9999, -9999, -9999, 0]
        assert [token["bytes"] for token in content] == [
            [97],
            [0xC3],
            [0xA9],
            [0xE6, 0xBC, 0xA2, 0x78],
            [],
        ]
        assert all(token["top_logprobs"] == [] for token in content)

    def test_of_a_completion_are_null_where_there_is_none(self) -> None:
        choice = AnswerChoice("aé漢x", FinishReason.STOP, list(self.TOKENS))
        plain, topped = (
            json.loads(completion(HEAD, [choice], USAGE, top_logprobs=top))["choices"][0][
                "logprobs"
            ]
            for top in (False, True)
        )
        assert plain == {
            "tokens": ["a", "\ufffd", "\ufffd", "漢x", ""],
            "token_logprobs": [-0.25, -9999, None, None, 0],
            "top_logprobs": None,
            # Each points to the character that its token begins, or that comes next.
            "text_offset": [0, 1, 2, 2, 4],
        }
        tops = [{"a": -0.25}, {"\ufffd": -9999}, None, None, {"": 0}]
        assert topped == {**plain, "top_logprobs": tops}

    def test_offsets_go_on_from_event_to_event(self) -> None:
        writer = CompletionStreamWriter(HEAD, choices=2, top_logprobs=True)
        offsets = [
            event(writer.text(index, "", self.TOKENS))["choices"][0]["logprobs"]["text_offset"][0]
            for index in (0, 0, 1, 0)
        ]
        assert offsets == [0, 4, 0, 8]
