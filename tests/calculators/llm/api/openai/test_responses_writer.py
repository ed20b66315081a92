"""Answers of ``/responses``, whole and as streams of events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import FinishReason, TokenLogprob, Usage, Verbose
from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.api.openai.responses_request import parse_responses_request
from calculators.llm.api.openai.responses_writer import ResponsesAnswerWriter
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from graph_runtime import Code

USAGE = Usage(3, 4, 2)
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
MEMBERS: dict[str, Any] = {
    "instructions": 'be "short"\u2028',
    "metadata": {"k": "v"},
    "tools": [TOOL],
    "temperature": 0.5,
    "reasoning": {"effort": "low", "summary": "auto"},
}
ALL: list[OutputEvent] = [
    Reasoning("hm"),
    Reasoning("..."),
    Content("Hello "),
    Content("you \u2028😀"),
    ToolCall("f", "call00001"),
    Arguments('{"a":'),
    Arguments("1}"),
    ToolCall("g", "call00002"),
    Arguments("{}"),
]


def writer(verbose: Verbose | None = None, **members: Any) -> ResponsesAnswerWriter:
    body = {"model": "m", "input": "hi", **MEMBERS, **members}
    request = parse_responses_request(body, RequestLimits(), ModelDefaults())
    return ResponsesAnswerWriter(request, verbose)


def streamed(
    events: Sequence[OutputEvent], reason: FinishReason = FinishReason.STOP, **members: Any
) -> str:
    made = writer(**members)
    text = made.start(Usage(3, 0)) + made.begin(0)
    text += "".join(made.more(0, [event], None) for event in events)
    return text + made.finish(0, reason) + made.end(USAGE)


def read(text: str) -> list[dict[str, Any]]:
    """Return the events of a stream, without ``[DONE]``."""
    assert text.endswith("\n\ndata: [DONE]\n\n")
    events = []
    for number, event in enumerate(text.removesuffix("data: [DONE]\n\n").split("\n\n")[:-1]):
        name, data = event.split("\n")
        assert len(event.splitlines()) == 2, "some clients know more line ends"
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        assert value["sequence_number"] == number
        events.append(value)
    return events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_the_events_of_an_answer_with_everything() -> None:
    events = read(streamed(ALL, FinishReason.TOOL_CALLS))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_the_streamed_text_equals_the_completed_response() -> None:
    events = read(streamed([*ALL, Content("bye")]))
    final = events[-1]["response"]["output"]
    added = [event for event in events if event["type"].endswith("item.added")]
    done = [event for event in events if event["type"].endswith("item.done")]
    assert [event["output_index"] for event in added] == list(range(len(final)))
    assert [event["output_index"] for event in done] == list(range(len(final)))
    assert [event["item"]["id"] for event in added] == [item["id"] for item in final]
    assert [event["item"] for event in done] == final
    assert [item["type"] for item in final] == [
        "reasoning", "message", "function_call", "function_call", "message",
    ]  # fmt: skip
    for place, item in enumerate(final):
        inside = [e for e in events if e.get("output_index") == place and "item_id" in e]
        assert {event["item_id"] for event in inside} == {item["id"]}
        text = "".join(e["delta"] for e in inside if e["type"].endswith(".delta"))
        [ended] = [e for e in inside if "text" in e or "arguments" in e]
        assert text == ended.get("text", ended.get("arguments"))
        assert ended.get("name") == item.get("name")
        shown = {
            "reasoning": lambda item: item["summary"][0]["text"],
            "message": lambda item: item["content"][0]["text"],
            "function_call": lambda item: item["arguments"],
        }
        assert shown[item["type"]](item) == text


def test_ids_have_openais_prefixes_and_are_all_different() -> None:
    final = read(streamed(ALL))[-1]["response"]
    ids = [final["id"], *(item["id"] for item in final["output"])]
    assert [name.partition("_")[0] for name in ids] == ["resp", "rs", "msg", "fc", "fc"]
    assert len(set(ids)) == len(ids)


def test_the_created_response_is_empty_and_the_completed_one_has_the_usage() -> None:
    created, progress, *_, completed = read(streamed([Content("x")]))
    for event in (created, progress):
        response = event["response"]
        assert (response["status"], response["output"]) == ("in_progress", [])
        assert (response["usage"], response["completed_at"]) == (None, None)
    response = completed["response"]
    assert response["id"] == created["response"]["id"]
    assert response["completed_at"] >= response["created_at"]
    assert response["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }


def test_the_response_repeats_the_request() -> None:
    response = read(streamed([Content("x")]))[0]["response"]
    assert response["instructions"] == MEMBERS["instructions"]
    assert response["metadata"] == {"k": "v"}
    assert response["tools"] == [{**TOOL, "description": None}]
    assert (response["temperature"], response["tool_choice"]) == (0.5, "auto")
    assert (response["store"], response["previous_response_id"]) == (False, None)
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "medium"}


@pytest.mark.parametrize(
    ("reason", "why"),
    [(FinishReason.LENGTH, "max_output_tokens"), (FinishReason.CONTENT_FILTER, "content_filter")],
)
def test_an_answer_cut_off_by_length_is_incomplete(reason: FinishReason, why: str) -> None:
    events = read(streamed(ALL[:6], reason))
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": why}
    assert response["completed_at"] is None


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER])
def test_only_the_item_that_was_cut_off_is_incomplete(reason: FinishReason) -> None:
    events = read(streamed(ALL[:6], reason))
    response = events[-1]["response"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == response["output"]
    reasoning, message, call = response["output"]
    assert "status" not in reasoning
    assert (message["status"], call["status"]) == ("completed", "incomplete")
    assert response["output"][-1]["arguments"] == '{"a":'


@pytest.mark.parametrize("blank", [[], [Content("\n")]])
def test_an_answer_without_anything_has_an_empty_message(blank: list[OutputEvent]) -> None:
    events = read(streamed(blank))
    [message] = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == ""
    assert "output_text.done" in kinds(events)
    whole = json.loads(writer().whole([AnswerChoice()], USAGE))
    assert whole["output"][0]["content"][0]["text"] == ""


def test_an_answer_of_calls_alone_has_no_message() -> None:
    response = read(streamed([ToolCall("f", "c")]))[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["function_call"]


def test_a_failure_is_the_last_event_and_keeps_the_text() -> None:
    made = writer()
    text = made.start(Usage(3, 0)) + made.more(0, [Reasoning("hm"), Content("Hel")], None)
    events = read(text + made.failure(RequestError("the engine is down", code=Code.UNAVAILABLE)))
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.failed"
    assert (response["status"], response["usage"]) == ("failed", None)
    assert response["error"] == {"code": "server_error", "message": "the engine is down"}
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert response["output"][1]["status"] == "incomplete"
    assert response["output"][1]["content"][0]["text"] == "Hel"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (Code.INVALID_ARGUMENT, "invalid_prompt"),
        (Code.RESOURCE_EXHAUSTED, "rate_limit_exceeded"),
        (Code.DEADLINE_EXCEEDED, "server_error"),
    ],
)
def test_a_failure_before_the_first_event_begins_with_the_start(code: Code, name: str) -> None:
    events = read(writer().failure(RequestError("no", code=code)))
    assert kinds(events) == ["created", "in_progress", "failed"]
    assert events[-1]["response"]["error"]["code"] == name


def test_a_whole_answer_equals_the_last_event_of_its_stream() -> None:
    choice = AnswerChoice(finish_reason=FinishReason.TOOL_CALLS)
    choice.events += ALL
    whole = json.loads(writer().whole([choice], USAGE))
    last = read(streamed(ALL, FinishReason.TOOL_CALLS))[-1]["response"]
    for response in (whole, last):
        for moving in ("id", "created_at", "completed_at"):
            del response[moving]
        for item in response["output"]:
            del item["id"]
    assert whole == last


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER])
def test_a_whole_answer_cut_off_by_length_is_incomplete(reason: FinishReason) -> None:
    choice = AnswerChoice([Reasoning("hm"), Content("Hel")], reason)
    whole = json.loads(writer().whole([choice], USAGE))
    assert whole["status"] == "incomplete"
    assert [item.get("status") for item in whole["output"]] == [None, "incomplete"]


def test_log_probabilities_belong_to_the_text() -> None:
    made = writer(include=["message.output_text.logprobs"])
    assert made.wants_logprobs

    def token(text: str) -> TokenLogprob:
        return TokenLogprob(text, text.encode(), -0.5)

    text = made.start(Usage(3, 0))
    text += made.more(0, [Reasoning("hm")], [token("hm")])
    text += made.more(0, [], [token("He")])
    text += made.more(0, [Content("Hello")], [token("llo")])
    text += made.more(0, [Content(" you")], [token(" you")])
    text += made.more(0, [ToolCall("f", "c"), Arguments("{}")], [token("call")])
    events = read(text + made.finish(0, FinishReason.STOP) + made.end(USAGE))
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [[t["token"] for t in event["logprobs"]] for event in deltas] == [
        ["He", "llo"],
        [" you"],
    ]
    content = events[-1]["response"]["output"][1]["content"][0]
    assert [t["token"] for t in content["logprobs"]] == ["He", "llo", " you"]
    assert content["logprobs"][0] == {
        "token": "He",
        "logprob": -0.5,
        "bytes": [72, 101],
        "top_logprobs": [],
    }
    [done] = [event for event in events if event["type"] == "response.output_text.done"]
    assert done["logprobs"] == content["logprobs"]


def test_prompt_and_raw_text_are_shown_at_the_end_on_request() -> None:
    verbose = Verbose("<user>hi", "Hi<end>")
    whole = json.loads(writer(verbose).whole([AnswerChoice([Content("Hi")])], USAGE))
    assert whole["__verbose"] == {"prompt": "<user>hi", "content": "Hi<end>"}
