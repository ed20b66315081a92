"""Messages of chat requests: kept members, refused ones, and the places of errors."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.llm.requests.messages import normalise_messages

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": ""}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "x"}}


def normalised(message: dict[str, Any]) -> dict[str, Any]:
    (result,) = normalise_messages([message])
    return result


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x"},
        {"role": "developer", "content": "x"},
        {"content": "x", "role": "anything"},
        {"role": "user", "content": "x", "name": "n"},
        {"role": "tool", "tool_call_id": "c", "content": "x", "name": "f"},
        {"role": "assistant", "reasoning_content": "r", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "a", "extra": 1}, IMAGE, AUDIO]},
    ],
)
def test_known_members_are_kept_in_their_order(message: dict[str, Any]) -> None:
    assert list(normalised(message).items()) == list(message.items())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": None}, {"role": "user", "content": ""}),
        ({"role": "user", "content": []}, {"role": "user", "content": ""}),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "no"}]},
        ),
        (
            {"role": "assistant", "content": None, "refusal": "no"},
            {"role": "assistant", "content": "no"},
        ),
        (
            {"role": "assistant", "content": "yes", "refusal": None},
            {"role": "assistant", "content": "yes"},
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"file_data": "b25l", "filename": "a.txt"}},
                    {"type": "text", "text": "?"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": '<document name="a.txt">\none\n</document>\n'},
                    {"type": "text", "text": "?"},
                ],
            },
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": "r"},
            {"role": "assistant", "content": "x", "reasoning_content": "r"},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning_content": "a", "reasoning": "b"},
            {"role": "assistant", "content": "x", "reasoning_content": "a"},
        ),
        ({"content": None, "role": "assistant"}, {"content": "", "role": "assistant"}),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
        ),
        ({"role": "user", "content": "x", "tool_calls": None}, {"role": "user", "content": "x"}),
        ({"role": "user", "content": "x", "name": None}, {"role": "user", "content": "x"}),
        ({"role": "user", "content": "x", "unknown": {}}, {"role": "user", "content": "x"}),
        ({"role": "user", "content": "x", "name": 5}, {"role": "user", "content": "x"}),
        (
            {"role": "user", "content": "x", "reasoning_content": []},
            {"role": "user", "content": "x"},
        ),
    ],
)
def test_null_means_absent_and_unknown_members_are_dropped(
    message: dict[str, Any], expected: dict[str, Any]
) -> None:
    # As in a request to a server: its record has the rule for unknown members.
    set_current_record(RequestRecord(""))
    try:
        assert list(normalised(message).items()) == list(expected.items())
    finally:
        set_current_record(None)


@pytest.mark.parametrize("function", [{}, {"arguments": None}, {"arguments": ""}])
def test_a_call_without_arguments_has_none(function: dict[str, Any]) -> None:
    sent = {"name": "f", **function}
    message = {"role": "assistant", "tool_calls": [{"function": sent}]}
    assert normalised(message)["tool_calls"] == [{"function": {"name": "f", "arguments": "{}"}}]
    assert sent == {"name": "f", **function}, "the request itself is not changed"


@pytest.mark.parametrize("arguments", ["{}", "[1]", "{bad", '{"a": "b"}', r'["\ud83d\ude00"]'])
def test_arguments_are_kept_as_they_are(arguments: str) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    assert normalised({"role": "assistant", "tool_calls": [call]})["tool_calls"] == [call]


def test_an_assistants_message_may_be_empty() -> None:
    assert normalised({"role": "assistant"}) == {"role": "assistant", "content": ""}


def part(value: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "a"}, value]}]


def calls(value: object) -> list[dict[str, Any]]:
    return [{"role": "assistant", "tool_calls": value}]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ("hi", "messages"),
        ({}, "messages"),
        ([], "messages"),
        ([{"role": "user", "content": "x"}, 1], "messages[1]"),
        ([{}], "messages[0].role"),
        ([{"role": None}], "messages[0].role"),
        ([{"role": 1, "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": {"a": 1}}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        (part(1), "messages[0].content[1]"),
        (part({"type": "thinking", "thinking": "x"}), "messages[0].content[1].type"),
        (part({}), "messages[0].content[1].type"),
        (part({"type": 1}), "messages[0].content[1].type"),
        (part({"type": "hologram"}), "messages[0].content[1].type"),
        (part({"type": "text"}), "messages[0].content[1].text"),
        (part({"type": "text", "text": None}), "messages[0].content[1].text"),
        (part({"type": "text", "text": 1}), "messages[0].content[1].text"),
        (part({"type": "image_url"}), "messages[0].content[1].image_url"),
        (part({"type": "image_url", "image_url": 1}), "messages[0].content[1].image_url"),
        (part({"type": "image_url", "image_url": {}}), "messages[0].content[1].image_url.url"),
        (part({"type": "input_audio"}), "messages[0].content[1].input_audio"),
        (
            part({"type": "input_audio", "input_audio": {"data": 1}}),
            "messages[0].content[1].input_audio.data",
        ),
        (
            part({"type": "input_file", "file_data": "Yg==", "file_url": {}}),
            "messages[0].content[1].file_url",
        ),
        (calls("x"), "messages[0].tool_calls"),
        (calls({}), "messages[0].tool_calls"),
        (calls(["x"]), "messages[0].tool_calls[0]"),
        (calls([CALL, {"id": "a"}]), "messages[0].tool_calls[1].function"),
        (calls([{"function": "f"}]), "messages[0].tool_calls[0].function"),
        (
            calls([{"function": {"name": "f", "arguments": r'{"a": "\uD83d"}'}}]),
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([{"role": "user"}], "messages[0].content"),
    ],
)
def test_errors_name_the_place(messages: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        normalise_messages(messages)
    assert caught.value.param == param
    assert param in str(caught.value)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("b", {"type": "text", "text": "b"}),
        ({"type": "input_text", "text": "b"}, {"type": "text", "text": "b"}),
        ({"type": "output_text", "text": "b"}, {"type": "text", "text": "b"}),
        (
            {"type": "image_url", "image_url": "data:x"},
            {"type": "image_url", "image_url": {"url": "data:x"}},
        ),
        (
            {"type": "input_image", "image_url": "data:x"},
            {"type": "image_url", "image_url": {"url": "data:x"}},
        ),
        (
            {"type": "input_file", "file_data": "Yg=="},
            {"type": "text", "text": "<document>\nb\n</document>\n"},
        ),
    ],
)
def test_parts_of_other_clients(given: object, read: dict[str, Any]) -> None:
    [message] = normalise_messages(part(given))
    assert message["content"][1] == read


@pytest.mark.parametrize("thinking", ["hm", [{"type": "text", "text": "hm"}]])
def test_parts_with_reasoning_are_an_assistants_reasoning(thinking: object) -> None:
    thought = {"type": "thinking", "thinking": thinking}
    said = [thought, {"type": "text", "text": "a"}]
    [message] = normalise_messages([{"content": said, "role": "assistant"}])
    assert message["reasoning_content"] == "hm"
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_reasoning_in_the_form_of_openrouter_is_read() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "h"},
        {"type": "reasoning.encrypted", "data": "x"},
        {"type": "reasoning.text", "text": "m", "signature": None},
    ]
    said = {"role": "assistant", "content": "a", "reasoning_details": details}
    assert normalised(said)["reasoning_content"] == "hm"
    assert normalised({**said, "reasoning": "so"})["reasoning_content"] == "so"


def test_calls_of_the_former_form_and_their_results() -> None:
    messages = normalise_messages(
        [
            {"role": "user", "content": "time?"},
            {"role": "assistant", "content": None, "function_call": {"name": "now"}},
            {"role": "function", "name": "now", "content": "noon"},
        ]
    )
    [call] = messages[1]["tool_calls"]
    assert call["function"] == {"name": "now", "arguments": "{}"}
    assert messages[2]["role"] == "tool"
    assert messages[2]["tool_call_id"] == call["id"]


def test_results_without_an_id_answer_the_calls_in_order() -> None:
    calls = [{"id": f"c{i}", "function": {"name": "f"}} for i in range(3)]
    result = {"role": "tool", "content": "x"}
    messages = normalise_messages(
        [
            {"role": "assistant", "tool_calls": calls},
            {**result, "tool_call_id": "c1"},
            result,
            result,
            result,
        ]
    )
    assert [each.get("tool_call_id") for each in messages[1:]] == ["c1", "c0", "c2", None]


@pytest.mark.parametrize("call", [1, {}, {"name": 1}])
def test_a_call_of_the_former_form_needs_a_name(call: object) -> None:
    message = {"role": "assistant", "function_call": call}
    with pytest.raises(RequestError) as raised:
        normalise_messages([message])
    assert raised.value.param is not None
    assert raised.value.param.startswith("messages[0].function_call")
