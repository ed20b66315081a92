"""Items, blocks, parts and members that no reader knows are left out; misspelt ones are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.llm.endpoints import endpoint_of
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

CHAT, MESSAGES, RESPONSES = "/v3/chat/completions", "/v3/messages", "/v3/responses"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL_USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
DOCUMENT = {"type": "text", "media_type": "text/plain", "data": "one"}


@pytest.fixture(autouse=True)
def record() -> Iterator[RequestRecord]:
    made = RequestRecord("")
    set_current_record(made)
    yield made
    set_current_record(None)


def messages_of(path: str, **body: Any) -> list[dict[str, Any]]:
    """Return the messages for the template."""
    more = {"max_tokens": 5} if path == MESSAGES else {}
    request: Any = endpoint_of(path).parse(
        {"model": "m", **more, **body}, RequestLimits(), ModelDefaults()
    )
    messages: list[dict[str, Any]] = request.messages
    return messages


def conversation(path: str, *turns: Any) -> dict[str, Any]:
    """Return a body with contents of the user and the assistant in turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": each} for i, each in enumerate(turns)]
    return {"input" if path == RESPONSES else "messages": messages}


def text_of(path: str, text: str) -> dict[str, Any]:
    return {"type": "input_text" if path == RESPONSES else "text", "text": text}


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize(
    "kind", ["hologram", "container_upload", "web_search_result", "cache_point"]
)
def test_parts_of_unknown_types_are_left_out_and_named(
    path: str, kind: str, record: RequestRecord
) -> None:
    other = {"type": kind, "more": [1]}
    said = conversation(path, [text_of(path, "a"), other], [other], [other, text_of(path, "b")])
    user, assistant, last = messages_of(path, **said)
    for message, text in ((user, "a"), (last, "b")):
        content = message["content"]
        assert content in (text, [{"type": "text", "text": text}])
    assert not assistant["content"]
    assert len(record.warnings) == 3
    assert all(f'"{kind}"' in each and ".content[" in each for each in record.warnings)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (CHAT, "this model does not take videos"),
        (RESPONSES, "this model does not take videos"),
        (MESSAGES, "this API has no videos; /chat/completions takes them"),
    ],
)
@pytest.mark.parametrize("kind", ["video", "video_url", "input_video"])
def test_a_video_is_refused_and_not_left_out(path: str, why: str, kind: str) -> None:
    video = {"type": kind, "video_url": {"url": "data:video/mp4;base64,AAAA"}}
    said = conversation(path, [text_of(path, "What is it?"), video])
    with pytest.raises(RequestError, match=why) as raised:
        messages_of(path, **said)
    assert str(raised.value.param).endswith("[0].content[1]")


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_a_conversation_of_which_nothing_is_left_is_refused(path: str) -> None:
    with pytest.raises(RequestError, match="nothing else is said") as raised:
        messages_of(path, **conversation(path, [{"type": "hologram"}]))
    assert raised.value.param is not None
    assert raised.value.param.endswith("[0].content[0].type")


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_a_last_question_of_unknown_parts_is_an_empty_one(path: str) -> None:
    said = conversation(path, "a", "b", [{"type": "hologram"}])
    assert [each["content"] for each in messages_of(path, **said)] == ["a", "b", ""]


@pytest.mark.parametrize(
    ("path", "kind", "meant"),
    [
        (CHAT, "image_ulr", "image_url"),
        (CHAT, "Text", "text"),
        (MESSAGES, "documnet", "document"),
        (MESSAGES, "tool-result", "tool_result"),
        (RESPONSES, "input_txt", "input_text"),
        (RESPONSES, "inputFile", "input_file"),
    ],
)
def test_misspelt_types_are_refused_with_the_type_that_was_meant(
    path: str, kind: str, meant: str
) -> None:
    with pytest.raises(RequestError, match=f'Did you mean "{meant}"'):
        messages_of(path, **conversation(path, [text_of(path, "a"), {"type": kind}]))


def test_texts_of_systems_and_results_lose_other_blocks_too(record: RequestRecord) -> None:
    content = [{"type": "web_page"}, {"type": "text", "text": "r"}]
    found = {"type": "search_result", "source": "s", "content": content}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [*content, found]}
    body = conversation(MESSAGES, "q", [TOOL_USE], [result])
    system, *_, tool = messages_of(MESSAGES, system=content, **body)
    assert system["content"] == "r"
    assert [part["text"] for part in tool["content"]] == [
        "r",
        '<document name="s">\nSource: s\nr\n</document>\n',
    ]
    assert len(record.warnings) == 3


def test_values_of_include_are_left_out_or_refused(record: RequestRecord) -> None:
    sealed = "reasoning.encrypted_content"
    messages_of(RESPONSES, input="hi", include=["mcp_call.pages", sealed])
    assert [each.partition(" is ")[0] for each in record.warnings] == [
        'Invalid value for "include[0]": the string "mcp_call.pages"'
    ]
    with pytest.raises(RequestError, match=f'Did you mean "{sealed}"'):
        messages_of(RESPONSES, input="hi", include=["reasoning.encrypted_contents"])


#: An object of a request, its path, and a misspelt member with the one that was meant.
OBJECTS: list[tuple[str, Any, str, str, str]] = [
    (CHAT, lambda more: {"messages": [{"role": "user", "content": "q", **more}]},
     "messages[0]", "nmae", "name"),
    (CHAT, lambda more: {"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", **more},
        {"role": "user", "content": "q"}]},
     "messages[1]", "tool_call", "tool_calls"),
    (CHAT, lambda more: {"messages": [{"role": "user", "content": [
        {"type": "file", "file": {"file_data": "b25l", **more}}]}]},
     "messages[0].content[0].file", "fileName", "filename"),
    (CHAT, lambda more: {**conversation(CHAT, "q"), "thinking": {"type": "enabled", **more}},
     "thinking", "budget_token", "budget_tokens"),
    (CHAT, lambda more: {**conversation(CHAT, "q"), "tools": [{"type": "custom", "custom": {
        "name": "f", **more}}]},
     "tools[0].custom", "descripton", "description"),
    (RESPONSES, lambda more: {"input": [{"role": "user", "content": "q", **more}]},
     "input[0]", "statsu", "status"),
    (RESPONSES, lambda more: {"input": [{"role": "user", "content": [
        {"type": "input_file", "file_data": "b25l", **more}]}]},
     "input[0].content[0]", "file_name", "filename"),
    (RESPONSES, lambda more: {"input": "q", "tools": [{"type": "namespace", "name": "n", "tools": [
        {"type": "function", "name": "f"}], **more}]},
     "tools[0]", "descripton", "description"),
    (MESSAGES, lambda more: {"messages": [{"role": "user", "content": "q", **more}]},
     "messages[0]", "contnet", "content"),
    (MESSAGES, lambda more: conversation(MESSAGES, "q", [TOOL_USE], [
        {"type": "tool_result", "tool_use_id": "c", "content": "r", **more}]),
     "messages[2].content[0]", "is_eror", "is_error"),
    (MESSAGES, lambda more: conversation(MESSAGES, [
        {"type": "document", "source": DOCUMENT, **more}]),
     "messages[0].content[0]", "tilte", "title"),
    (MESSAGES, lambda more: conversation(MESSAGES, [
        {"type": "document", "source": {**DOCUMENT, **more}}]),
     "messages[0].content[0].source", "mediaType", "media_type"),
    (MESSAGES, lambda more: {**conversation(MESSAGES, "q"), "tools": [
        {"name": "f", "input_schema": {}, **more}]},
     "tools[0]", "descripton", "description"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "make", "place", "slip", "meant"),
    OBJECTS,
    ids=[f"{each[0]} {each[2]}" for each in OBJECTS],
)
def test_members_of_inner_objects_follow_the_rule(
    path: str, make: Any, place: str, slip: str, meant: str, record: RequestRecord
) -> None:
    messages_of(path, **make({"novelty": {"a": 1}}))
    assert record.warnings == (f'Unknown member "{place}.novelty"',)
    messages_of(path, **make({slip: None}))
    with pytest.raises(RequestError, match=f'"{meant}"') as raised:
        messages_of(path, **make({slip: "x"}))
    assert raised.value.param == f"{place}.{slip}"


def test_the_same_member_of_many_messages_is_named_once(record: RequestRecord) -> None:
    messages = [{"role": "user", "content": "q", "novelty": 1} for _ in range(100)]
    messages_of(CHAT, messages=messages, other=2)
    assert record.warnings == (
        'Unknown member "other"',
        'Unknown member "messages[0].novelty"',
    )


def test_arguments_of_a_call_are_not_lost_by_a_slip() -> None:
    call = {**CALL, "function": {"name": "f", "argument": "{}"}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(RequestError, match='"arguments"'):
        messages_of(CHAT, messages=messages)
