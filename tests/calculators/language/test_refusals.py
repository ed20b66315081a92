"""Refusals as each API's clients see them: before the first token, and in mid-stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from calculators.language import (
    GenerationRequest,
    Reasoning,
    Refusal,
    call,
    fake_model,
    on_request,
    on_text,
)
from tests.calculators.language.graphs import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Told,
    run_graph,
)


@on_request
async def refuse_all(request: GenerationRequest) -> GenerationRequest:
    raise Refusal("Not that.", "violence")


@on_text(kinds=("content", "arguments"))
async def refuse_late(text: AsyncIterator[str]) -> AsyncIterator[str]:
    async for piece in text:
        if "!" in piece:
            raise Refusal("No more.")
        yield piece


def before(uri: str, **members: Any) -> Told:
    model = fake_model("Hi")
    told = asyncio.run(run_graph(uri, model, [refuse_all], **members))
    assert told.error is None
    assert model.requests == []
    return told


def late(uri: str, *pieces: Any, **members: Any) -> Told:
    # Long enough to be stopped before its end.
    model = fake_model(*(pieces or ("Hi ", "you", "!")), *[" more"] * 200)
    told = asyncio.run(run_graph(uri, model, [refuse_late], **members))
    assert told.error is None
    assert model.stopped == 1
    return told


def of_type(told: Told, kind: str) -> list[dict[str, Any]]:
    return [event for event in told.events if event["type"] == kind]


def test_a_chat_that_is_refused_has_a_refusal_and_no_content() -> None:
    [choice] = before(CHAT).whole["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert (choice["message"]["content"], choice["message"]["refusal"]) == ("", "Not that.")
    deltas = [event["choices"][0] for event in before(CHAT, stream=True).events]
    assert "Not that." in [each["delta"].get("refusal") for each in deltas]
    assert "".join(each["delta"].get("content") or "" for each in deltas) == ""
    assert deltas[-1]["finish_reason"] == "content_filter"


def test_a_chat_that_is_cut_has_the_text_so_far() -> None:
    [choice] = late(CHAT).whole["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["content"] == "Hi you"
    told = late(CHAT, stream=True, stream_options={"include_usage": True})
    assert told.text == "Hi you"
    [*_, last, usage] = told.events
    assert last["choices"][0]["finish_reason"] == "content_filter"
    assert usage["usage"]["completion_tokens"] > 0
    assert "".join(told.packets).endswith("data: [DONE]\n\n")


def test_all_choices_of_a_chat_are_cut_together() -> None:
    choices = late(CHAT, n=3).whole["choices"]
    assert [each["finish_reason"] for each in choices] == ["content_filter"] * 3


def test_a_call_that_is_cut_stays_open_and_is_no_reason_to_run_it() -> None:
    pieces = (call("f", '{"a": ')[:2], call("f", '"!"')[1:2])
    [choice] = late(CHAT, *pieces).whole["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": '


def test_completions_tell_by_the_finish_reason() -> None:
    [choice] = before(COMPLETIONS).whole["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("", "content_filter")
    [choice] = late(COMPLETIONS).whole["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Hi you", "content_filter")
    assert late(COMPLETIONS, stream=True).events[-1]["choices"][0]["finish_reason"] == (
        "content_filter"
    )


def test_a_response_that_is_refused_has_a_refusal_part() -> None:
    body = before(RESPONSES).whole
    assert (body["status"], body["incomplete_details"]) == (
        "incomplete",
        {"reason": "content_filter"},
    )
    [item] = body["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "Not that."}]
    told = before(RESPONSES, stream=True)
    kinds = [event["type"] for event in told.events]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    [delta] = of_type(told, "response.refusal.delta")
    [done] = of_type(told, "response.refusal.done")
    assert delta["delta"] == done["refusal"] == "Not that."
    response = told.events[-1]["response"]
    assert response["incomplete_details"] == {"reason": "content_filter"}
    assert response["output"][0]["content"] == item["content"]


def test_a_response_that_is_cut_ends_with_an_incomplete_item() -> None:
    body = late(RESPONSES, Reasoning("hm"), "Hi", "!").whole
    assert [item["type"] for item in body["output"]] == ["reasoning", "message"]
    assert body["output"][-1]["status"] == "incomplete"
    told = late(RESPONSES, stream=True)
    [done] = of_type(told, "response.output_item.done")
    assert done["item"]["status"] == "incomplete"
    assert done["item"]["content"][0]["text"] == "Hi you"
    assert told.events[-1]["type"] == "response.incomplete"
    assert told.events[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_has_the_details_of_its_refusal(stream: bool) -> None:
    for told, category, text in (
        (before(MESSAGES, stream=stream), "violence", "Not that."),
        (late(MESSAGES, stream=stream), None, "No more."),
    ):
        ending = of_type(told, "message_delta")[0]["delta"] if stream else told.whole
        assert ending["stop_reason"] == "refusal"
        assert ending["stop_details"] == {
            "type": "refusal",
            "category": category,
            "explanation": text,
        }
    if stream:
        kinds = [event["type"] for event in late(MESSAGES, stream=True).events]
        assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    else:
        assert before(MESSAGES).whole["content"] == []
        assert late(MESSAGES).whole["content"] == [{"type": "text", "text": "Hi you"}]
