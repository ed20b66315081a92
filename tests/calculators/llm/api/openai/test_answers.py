"""Bodies and events of answers, parsed as clients parse them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from calculators.language.delta import FinishReason, TokenLogprob, Usage, Verbose
from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.language.generation_request import Api
from calculators.llm.answers.choice import finish_reason
from calculators.llm.answers.response import (
    DONE,
    AnswerChoice,
    ResponseHead,
)
from calculators.llm.api.neutral_request import new_answer_id
from calculators.llm.api.openai.completions_writer import ChatAnswerWriter, CompletionAnswerWriter

HEAD = ResponseHead("chatcmpl-1", 'a "model"', 123)
USAGE = Usage(3, 4)
TRICKY = 'quote " backslash \\ line\nend\r tab\t nul\0 \x1c \x85 \u2028 \u2029 é 漢 😀 \x7f'


def event(text: str) -> dict[str, Any]:
    """Return the JSON of one server-sent event."""
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    data = text.removeprefix("data: ").removesuffix("\n\n")
    # Clients split streams with str.splitlines, which recognises more line ends than SSE does.
    assert len(data.splitlines()) == 1
    data.encode()
    value = json.loads(data)
    assert isinstance(value, dict)
    return value


def test_a_chat_answer_has_openais_form() -> None:
    choices = [
        AnswerChoice([Content("Hello")]),
        AnswerChoice([], FinishReason.LENGTH, [TokenLogprob("H", b"H", -0.5)]),
    ]
    assert json.loads(ChatAnswerWriter(HEAD).whole(choices, USAGE)) == {
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


def test_a_completion_answer_has_openais_form() -> None:
    head = ResponseHead("cmpl-1", "m", 123, "fp")
    choices = [AnswerChoice([Content("Hello")])]
    assert json.loads(CompletionAnswerWriter(head).whole(choices, Usage(3, 4, 2))) == {
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


def test_the_events_of_a_chat_have_openais_form() -> None:
    writer = ChatAnswerWriter(HEAD, n=2)
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

    assert event(writer.begin(0)) == chunk(0, {"role": "assistant", "content": ""})
    assert event(writer.more(1, [Content("Hi")], None)) == chunk(1, {"content": "Hi"})
    assert event(writer.finish(1, FinishReason.LENGTH)) == chunk(1, {}, "length")
    assert writer.end(USAGE) == DONE
    usage = ChatAnswerWriter(HEAD, include_usage=True).end(USAGE)
    assert usage.endswith(DONE)
    assert event(usage.removesuffix(DONE)) == {
        **common,
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
    assert DONE == "data: [DONE]\n\n"


def chunks(text: str) -> list[dict[str, Any]]:
    """Return the one choice of each of several events."""
    return [event(each + "\n\n")["choices"][0] for each in text.split("\n\n")[:-1]]


def test_a_whole_chat_has_calls_and_reasoning() -> None:
    call: list[OutputEvent] = [ToolCall("f", "a1b2c3d4e"), Arguments('{"x"'), Arguments(":1}")]
    choice = AnswerChoice([Reasoning("hm"), *call], FinishReason.TOOL_CALLS)
    (written,) = json.loads(ChatAnswerWriter(HEAD).whole([choice], USAGE))["choices"]
    assert written["message"] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "reasoning": "hm",
        "refusal": None,
        "tool_calls": [
            {
                "id": "a1b2c3d4e",
                "type": "function",
                "function": {"name": "f", "arguments": '{"x":1}'},
            }
        ],
    }
    assert written["finish_reason"] == "tool_calls"


def test_a_call_starts_with_id_and_name_and_arguments_follow() -> None:
    writer = ChatAnswerWriter(HEAD, n=2)
    events: list[OutputEvent] = [
        Reasoning("hm"),
        ToolCall("f", "id1"),
        Arguments('{"x"'),
        Arguments(":1}"),
        ToolCall("g", "id2"),
        Arguments("{}"),
    ]

    def begun(index: int, name: str, call_id: str) -> dict[str, Any]:
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": call_id, "type": "function", "function": function}
        return {"tool_calls": [call]}

    def more(index: int, text: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}

    assert [each["delta"] for each in chunks(writer.more(1, events, None))] == [
        {"reasoning_content": "hm", "reasoning": "hm"},
        begun(0, "f", "id1"),
        more(0, '{"x"'),
        more(0, ":1}"),
        begun(1, "g", "id2"),
        more(1, "{}"),
    ]
    # Each choice has its own index of calls.
    (first,) = chunks(writer.more(0, [ToolCall("f", "id3")], None))
    assert first["delta"] == begun(0, "f", "id3")


def test_log_probabilities_are_sent_once_even_for_tokens_without_text() -> None:
    writer = ChatAnswerWriter(HEAD)
    tokens = [TokenLogprob("a", b"a", -0.5)]
    alone = chunks(writer.more(0, [], tokens))
    both = chunks(writer.more(0, [ToolCall("f", "id"), Arguments("{")], tokens))
    assert [bool(each["logprobs"]) for each in alone] == [True]
    assert [bool(each["logprobs"]) for each in both] == [True, False]


@pytest.mark.parametrize("include_usage", [False, True])
def test_prompt_and_raw_text_are_shown_on_request(include_usage: bool) -> None:
    verbose = Verbose("<prompt>", "raw<|end|>")
    shown = {"prompt": "<prompt>", "content": "raw<|end|>"}
    chat = ChatAnswerWriter(HEAD, include_usage=include_usage, verbose=verbose)
    text = CompletionAnswerWriter(HEAD, include_usage=include_usage, verbose=verbose)
    for writer in (chat, text):
        assert json.loads(writer.whole([AnswerChoice([Content("x")])], USAGE))["__verbose"] == shown
        assert event(writer.finish(0, FinishReason.STOP))["__verbose"] == shown
        assert "__verbose" not in event(writer.more(0, [Content("x")], None))


def test_the_events_of_a_completion_have_openais_form() -> None:
    writer = CompletionAnswerWriter(HEAD, choices=2)
    body = event(writer.more(1, [Content("Hi")], None))
    assert body["object"] == "text_completion"
    assert body["choices"] == [{"index": 1, "text": "Hi", "logprobs": None, "finish_reason": None}]
    assert event(writer.finish(0, FinishReason.STOP))["choices"] == [
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    ]
    assert writer.end(USAGE) == DONE


@pytest.mark.parametrize("include_usage", [False, True])
def test_usage_is_null_in_every_event_of_a_stream_that_ends_with_it(include_usage: bool) -> None:
    chat = ChatAnswerWriter(HEAD, include_usage=include_usage)
    text = CompletionAnswerWriter(HEAD, include_usage=include_usage)
    logprobs = [TokenLogprob("a", b"a", -1.0)]
    for written in (
        chat.begin(0),
        chat.more(0, [Content("a")], None),
        chat.more(0, [Content("a")], logprobs),
        chat.finish(0, FinishReason.STOP),
        text.more(0, [Content("a")], None),
        text.more(0, [Content("a")], logprobs),
        text.finish(0, FinishReason.STOP),
    ):
        body = event(written)
        assert ("usage" in body) is include_usage
        assert body.get("usage") is None


def test_any_text_arrives_unchanged() -> None:
    for text in (TRICKY, *map(chr, range(0x100)), "\ud7ff\ue000\uffff"):
        assert event(ChatAnswerWriter(HEAD).more(0, [Content(text)], None))["choices"][0][
            "delta"
        ] == {"content": text}
        assert (
            event(CompletionAnswerWriter(HEAD).more(0, [Content(text)], None))["choices"][0]["text"]
            == text
        )
    whole = ChatAnswerWriter(HEAD).whole([AnswerChoice([Content(TRICKY)])], USAGE)
    assert json.loads(whole.encode())["choices"][0]["message"]["content"] == TRICKY


def test_half_a_surrogate_pair_is_replaced() -> None:
    written = ChatAnswerWriter(HEAD).more(0, [Content("a\ud800b")], None)
    assert event(written)["choices"][0]["delta"]["content"] == "a\ufffdb"


def test_every_answer_has_a_new_id() -> None:
    ids = {new_answer_id(Api.CHAT) for _ in range(10)}
    assert len(ids) == 10
    assert all(re.fullmatch("chatcmpl-[0-9a-f]{32}", each) for each in ids)


@pytest.mark.parametrize(
    ("engine", "wire"),
    [("stop", "stop"), ("length", "length"), ("cache", "length"), ("eos", "stop")],
)
def test_finish_reasons_are_openais(engine: str, wire: str) -> None:
    assert finish_reason(engine) == wire


class TestLogprobs:
    TOKENS = (
        TokenLogprob("a", b"a", -0.25),
        TokenLogprob("\ufffd", b"\xc3", float("-inf")),
        TokenLogprob("\ufffd", b"\xa9", 1.0),
        TokenLogprob("漢x", "漢x".encode(), float("nan")),
        TokenLogprob("", b"", 0.0),
    )

    def test_log_probabilities_of_a_chat_are_always_numbers(self) -> None:
        written = ChatAnswerWriter(HEAD).more(0, [Content("aé漢x")], self.TOKENS)
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

    def test_missing_log_probabilities_of_a_completion_are_null(self) -> None:
        choice = AnswerChoice([Content("aé漢x")], FinishReason.STOP, list(self.TOKENS))
        plain, topped = (
            json.loads(CompletionAnswerWriter(HEAD, logprobs=top).whole([choice], USAGE))[
                "choices"
            ][0]["logprobs"]
            for top in (0, 1)
        )
        assert plain == {
            "tokens": ["a", "\ufffd", "\ufffd", "漢x", ""],
            "token_logprobs": [-0.25, -9999, None, None, 0],
            "top_logprobs": None,
            # Each offset points to the character at which its token begins, or to the next one.
            "text_offset": [0, 1, 2, 2, 4],
        }
        tops = [{"a": -0.25}, {"\ufffd": -9999}, None, None, {"": 0}]
        assert topped == {**plain, "top_logprobs": tops}

    def test_offsets_continue_from_event_to_event(self) -> None:
        writer = CompletionAnswerWriter(HEAD, choices=2, logprobs=1)
        offsets = [
            event(writer.more(index, [], self.TOKENS))["choices"][0]["logprobs"]["text_offset"][0]
            for index in (0, 0, 1, 0)
        ]
        assert offsets == [0, 4, 0, 8]
