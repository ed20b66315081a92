"""Cohere's ``/v2/chat``: bodies, refusals, answers, events and citations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import Begun, FinishReason, Usage
from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.language.generation_request import Api, GenerationRequest, Source
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.api.cohere import (
    CohereChatRequest,
    CohereChatWriter,
    citations,
    parse_cohere_chat_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

HELLO = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
DOCUMENTS = (Source(1, "a", "Cats sleep.", "a"), Source(2, "b", "Dogs bark.", "b"))
USAGE = Usage(5, 4, 2)


def parsed(**members: Any) -> CohereChatRequest:
    body = {"model": "m", "messages": [HELLO], **members}
    return parse_cohere_chat_request(body, RequestLimits(max_images=1), ModelDefaults())


def test_members_have_coheres_names() -> None:
    request = parsed(
        p=0.9, k=7, max_tokens=5, stop_sequences=["x"], seed=3, temperature=0.5, logprobs=True
    )
    settings = request.settings
    assert (settings.top_p, settings.top_k, settings.max_new_tokens) == (0.9, 7, 5)
    assert (settings.stop_strings, settings.rng_seed, request.logprobs) == (("x",), 3, True)
    assert request.members is not None
    assert request.members["top_k"] == 7


def test_tools_their_calls_and_results() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    request = parsed(
        messages=[
            HELLO,
            {"role": "assistant", "tool_plan": "I call f.", "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [{"type": "document", "document": {"id": "d", "data": {"text": "Yes"}}}],
            },
        ],
        tools=[TOOL],
        tool_choice="REQUIRED",
        strict_tools=True,
    )
    assert (request.tools.choice, list(request.tools.strict)) == ("required", ["f"])
    assert request.messages[1]["content"] == "I call f."
    assert "Yes" in request.messages[2]["content"][0]["text"]


@pytest.mark.parametrize("mode", [None, "OFF"])
def test_documents_are_shown_with_their_numbers(mode: str | None) -> None:
    documents = ["Cats sleep.", {"id": "b", "data": {"title": "Dogs", "text": "They bark."}}]
    options = {} if mode is None else {"citation_options": {"mode": mode}}
    request = parsed(documents=documents, **options)
    system = request.messages[0]
    assert system["role"] == "system"
    for text in ("Cats sleep.", "title: Dogs\ntext: They bark.", 'name="2"'):
        assert text in system["content"]
    assert [each.id for each in request.documents] == ([] if mode else ["doc:0", "b"])
    assert ("in brackets" in system["content"]) is (mode is None)


def test_a_form_may_have_a_schema() -> None:
    form = {"type": "json_object", "json_schema": {"type": "object"}}
    structured = parsed(response_format=form).structured
    assert structured is not None
    assert structured.param == "response_format.json_schema"
    assert parsed(response_format={"type": "json_object"}).structured is not None
    assert parsed(response_format={"type": "text"}).structured is None


def test_thinking_is_a_switch_of_the_template() -> None:
    values = parsed(thinking={"type": "disabled", "token_budget": 5}).template.values
    assert values == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "User", "tool_calls": []}]}, "messages[0].role"),
        ({"p": 2}, "p"),
        ({"k": -1}, "k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"tool_choice": "REQUIRED"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"documents": [5]}, "documents[0]"),
        ({"documents": [{"id": "a"}]}, "documents[0].data"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"thinking": {"type": "some"}}, "thinking.type"),
        ({"n": 2}, "n"),
    ],
)
def test_refusals_name_the_place(members: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as raised:
        parsed(**members)
    assert raised.value.param == param


def writer(sources: tuple[Source, ...] = ()) -> CohereChatWriter:
    request = GenerationRequest(api=Api.COHERE_CHAT, model="m", id="one", sources=sources)
    return CohereChatWriter(Begun(1, Usage(5, 0), request))


ALL: list[OutputEvent] = [
    Reasoning("hm"),
    Content("I will \u2028call."),
    ToolCall("f", "c1"),
    Arguments('{"a":'),
    Arguments("1}"),
]


def test_a_whole_answer() -> None:
    choice = AnswerChoice(events=list(ALL), finish_reason=FinishReason.TOOL_CALLS)
    answer = json.loads(writer().whole([choice], USAGE))
    assert answer["finish_reason"] == "TOOL_CALL"
    assert answer["message"] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "I will \u2028call."},
        ],
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        ],
    }
    assert answer["usage"]["tokens"] == {"input_tokens": 5, "output_tokens": 4}
    assert answer["usage"]["cached_tokens"] == 2


def test_the_events_of_a_stream() -> None:
    made = writer(DOCUMENTS)
    text = made.start(USAGE)
    for event in (*ALL, Content("Cats sleep [1"), Content("]. Dogs bark [2].")):
        text += made.more(0, [event], None)
    text += made.finish(0, FinishReason.STOP, "x") + made.end(USAGE)
    events = []
    for each in text.split("\n\n")[:-1]:
        name, data = each.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    kinds = [each["type"] for each in events]
    assert kinds == [
        *("message-start", "content-start", "content-delta", "content-end"),
        *("content-start", "content-delta", "content-end"),
        *("tool-call-start", "tool-call-delta", "tool-call-delta", "tool-call-end"),
        *("content-start", "content-delta", "content-delta"),
        *("citation-start", "citation-end", "citation-start", "citation-end"),
        *("content-end", "message-end"),
    ]
    cited = [
        each["delta"]["message"]["citations"] for each in events if each["type"] == "citation-start"
    ]
    assert [(each["text"], each["sources"][0]["id"]) for each in cited] == [
        ("Cats sleep", "a"),
        ("Dogs bark", "b"),
    ]
    assert events[-1]["delta"]["finish_reason"] == "STOP_SEQUENCE"


def test_citations_are_the_sentences_before_the_models_marks() -> None:
    text = "First. Cats sleep a lot [1, 2]. So what [7]? It is [3"
    found, _ = citations(text, DOCUMENTS)
    (only,) = found
    assert text[only["start"] : only["end"]] == only["text"] == "Cats sleep a lot"
    assert [each["id"] for each in only["sources"]] == ["a", "b"]


def test_an_error_after_the_beginning_ends_the_message() -> None:
    event = writer().failure(RequestError("lost"))
    assert json.loads(event.split("data: ")[1])["delta"] == {
        "error": "lost",
        "finish_reason": "ERROR",
    }
