"""Answers of ``/messages``, whole and as streams of events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.server_secret import signature
from calculators.language.delta import FinishReason, Usage, Verbose
from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.language.generation_request import Api
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.api.anthropic.messages_request import parse_messages_request
from calculators.llm.api.anthropic.messages_writer import MessagesAnswerWriter
from calculators.llm.api.neutral_request import new_answer_id
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

USAGE = Usage(5, 4, 2)
#: The signature of what `ALL` thinks.
SIGNED = signature(b"hm...").hex()
ALL: list[OutputEvent] = [
    Reasoning("hm"),
    Reasoning("..."),
    Content("Hello "),
    Content("you \u2028😀"),
    ToolCall("f", "call00001"),
    Arguments('{"a":'),
    Arguments("1}"),
    ToolCall("g", "call00002"),
]


def writer(verbose: Verbose | None = None, **members: Any) -> MessagesAnswerWriter:
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        **members,
    }
    request = parse_messages_request(body, RequestLimits(), ModelDefaults())
    return MessagesAnswerWriter(request, verbose, message_id=new_answer_id(Api.MESSAGES))


def streamed(
    events: Sequence[OutputEvent], reason: FinishReason = FinishReason.STOP, **members: Any
) -> str:
    made = writer(**members)
    text = made.start(Usage(5, 0, 2)) + made.begin(0)
    text += "".join(made.more(0, [event], None) for event in events)
    return text + made.finish(0, reason) + made.end(USAGE)


def read(text: str) -> list[dict[str, Any]]:
    assert text.endswith("\n\n")
    events = []
    for event in text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        assert len(event.splitlines()) == 2, "some clients know more line ends"
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        events.append(value)
    return events


def whole(choice: AnswerChoice, **members: Any) -> dict[str, Any]:
    value = json.loads(writer(**members).whole([choice], USAGE))
    assert isinstance(value, dict)
    return value


def test_the_events_of_an_answer_with_everything() -> None:
    events = read(streamed(ALL, FinishReason.TOOL_CALLS))
    shown = [(event["type"], event.get("index")) for event in events]
    assert shown == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("content_block_start", 3),
        ("content_block_stop", 3),
        ("message_delta", None),
        ("message_stop", None),
    ]
    started = [event["content_block"] for event in events if "content_block" in event]
    assert started == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "call00001", "name": "f", "input": {}},
        {"type": "tool_use", "id": "call00002", "name": "g", "input": {}},
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "thinking_delta", "thinking": "..."},
        {"type": "signature_delta", "signature": SIGNED},
        {"type": "text_delta", "text": "Hello "},
        {"type": "text_delta", "text": "you \u2028😀"},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": "1}"},
    ]


def test_the_start_counts_the_prompt_and_the_end_everything() -> None:
    start, *_, delta, _ = read(streamed([Content("x")]))
    message = start["message"]
    assert message["id"].startswith("msg_")
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "m")
    assert (message["content"], message["stop_reason"], message["stop_sequence"]) == (
        [],
        None,
        None,
    )
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 0,
    }
    assert message["usage"] == usage
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert delta["usage"] == {**usage, "output_tokens": 4}


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (FinishReason.STOP, "end_turn"),
        (FinishReason.LENGTH, "max_tokens"),
        (FinishReason.TOOL_CALLS, "tool_use"),
        (FinishReason.CONTENT_FILTER, "refusal"),
    ],
)
def test_the_stop_reason_follows_from_the_finish_reason(reason: FinishReason, name: str) -> None:
    assert read(streamed([Content("x")], reason))[-2]["delta"]["stop_reason"] == name
    assert whole(AnswerChoice([Content("x")], reason))["stop_reason"] == name


def test_the_matched_stop_sequence_is_named() -> None:
    made = writer(stop_sequences=["END"])
    made.start(USAGE)
    made.finish(0, FinishReason.STOP, "END")
    delta, _ = read(made.end(USAGE))
    assert delta["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_a_whole_answer() -> None:
    choice = AnswerChoice(finish_reason=FinishReason.TOOL_CALLS)
    choice.events += ALL
    body = whole(choice)
    assert body["content"] == [
        {"type": "thinking", "thinking": "hm...", "signature": SIGNED},
        {"type": "text", "text": "Hello you \u2028😀"},
        {"type": "tool_use", "id": "call00001", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "call00002", "name": "g", "input": {}},
    ]
    assert body["usage"]["output_tokens"] == 4


@pytest.mark.parametrize("nothing", ["", "\n"])
def test_an_empty_answer_has_no_blocks(nothing: str) -> None:
    assert whole(AnswerChoice([Content(nothing)] if nothing else []))["content"] == []
    events = read(streamed([Content(nothing)] if nothing else []))
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize("arguments", ['{"a": [1,', "nonsense", "[1]", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_not_an_object_are_kept(arguments: str) -> None:
    choice = AnswerChoice([ToolCall("f", "c"), Arguments(arguments)])
    [block] = whole(choice)["content"]
    assert block["input"] == {"INVALID_JSON": arguments}


def test_arguments_are_kept_as_the_model_wrote_them() -> None:
    choice = AnswerChoice([ToolCall("f", "c"), Arguments('{"a": 1.10, "b": 12345678901234567890}')])
    text = writer().whole([choice], USAGE)
    assert '"input":{"a": 1.10, "b": 12345678901234567890}' in text


def test_thinking_can_be_left_out() -> None:
    members: dict[str, Any] = {
        "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}
    }
    choice = AnswerChoice([Reasoning("hm"), Content("x")])
    assert [block["type"] for block in whole(choice, **members)["content"]] == ["text"]
    events = read(streamed(ALL[:4], **members))
    assert [e["content_block"]["type"] for e in events if "content_block" in e] == ["text"]
    assert all(event.get("index", 0) == 0 for event in events)


def test_a_failure_is_left_to_the_front() -> None:
    made = writer()
    made.start(USAGE)
    assert made.failure(RequestError("no")) == ""


def test_prompt_and_raw_text_are_shown_on_request() -> None:
    text = writer(Verbose("<user>hi", "Hi<end>")).whole([AnswerChoice([Content("Hi")])], USAGE)
    assert json.loads(text)["__verbose"] == {"prompt": "<user>hi", "content": "Hi<end>"}
