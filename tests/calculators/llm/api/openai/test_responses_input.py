"""Input items of responses requests become messages for the template."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.api.openai.responses_input import read_input
from calculators.llm.requests.request_limits import RequestLimits

Items = list[dict[str, Any]]
SEES = RequestLimits(max_images=2)


def messages(*items: dict[str, Any], limits: RequestLimits = SEES) -> Items:
    return read_input(list(items), limits).messages


def refused(value: object, limits: RequestLimits = SEES) -> RequestError:
    with pytest.raises(RequestError) as raised:
        read_input(value, limits)
    return raised.value


USER = {"role": "user", "content": "weather?"}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
MADE_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def test_a_string_is_a_message_of_the_user() -> None:
    assert read_input("hi", SEES).messages == [{"role": "user", "content": "hi"}]


def test_reasoning_calls_and_results_become_three_messages() -> None:
    assert messages(USER, THOUGHT, CALL, {**CALL, "call_id": "c2"}, OUTPUT) == [
        USER,
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [MADE_CALL, {**MADE_CALL, "id": "c2"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]


def test_text_before_a_call_is_in_the_same_message() -> None:
    [_, assistant, tool] = messages(USER, THOUGHT, said("Let me see."), CALL, OUTPUT)
    assert assistant["content"] == [{"type": "text", "text": "Let me see."}]
    assert assistant["reasoning_content"] == "hm"
    assert assistant["tool_calls"] == [MADE_CALL]
    assert tool["role"] == "tool"


def test_text_after_a_call_is_in_the_same_message() -> None:
    [_, assistant] = messages(USER, CALL, said("I asked."))
    assert (assistant["content"], assistant["tool_calls"]) == (
        [{"type": "text", "text": "I asked."}],
        [MADE_CALL],
    )


def test_a_call_of_the_next_turn_is_a_message_of_its_own() -> None:
    shown = messages(USER, said("a"), USER, CALL, OUTPUT)
    assert [message["role"] for message in shown] == [
        "user", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip
    assert "tool_calls" not in shown[1]


def test_calls_after_further_reasoning_are_a_message_of_their_own() -> None:
    [_, first, second] = messages(USER, said("a"), THOUGHT, CALL)
    assert "tool_calls" not in first
    assert second["reasoning_content"] == "hm"


def test_all_parts_of_a_reasoning_count_and_its_text_goes_before_the_summary() -> None:
    parts = [{"type": "reasoning_text", "text": "one"}, {"type": "reasoning_text", "text": "two"}]
    [_, assistant] = messages(USER, {**THOUGHT, "content": parts}, said("ok"))
    assert assistant["reasoning_content"] == "one\ntwo"


def test_a_call_without_call_id_is_matched_by_its_id() -> None:
    item = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": ""}
    [assistant] = messages(item)
    assert assistant["tool_calls"][0]["id"] == "fc_1"


def test_parts_have_the_form_of_a_chat_request() -> None:
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "detail": "auto", "image_url": "data:x"},
        {"type": "input_image", "image_url": {"url": "data:y"}},
    ]
    assert messages({"role": "user", "content": content}) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
                {"type": "image_url", "image_url": {"url": "data:y"}},
            ],
        }
    ]


def test_a_refusal_is_text_of_the_assistant() -> None:
    content = [{"type": "refusal", "refusal": "no"}]
    [message] = messages({"role": "assistant", "content": content})
    assert message["content"] == [{"type": "text", "text": "no"}]


def test_a_result_may_be_parts() -> None:
    output = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}]
    [_, _, tool] = messages(USER, CALL, {**OUTPUT, "output": output})
    assert [part["type"] for part in tool["content"]] == ["text", "image_url"]


@pytest.mark.parametrize(
    ("value", "param", "text"),
    [
        (None, "input", "Missing"),
        (5, "input", "a string or an array, got 5"),
        ("", "input", "empty"),
        ([], "input", "at least one item"),
        (["x"], "input[0]", "an object"),
        ([{"content": "x"}], "input[0].role", "Missing"),
        ([{"role": 1, "content": "x"}], "input[0].role", "a string"),
        ([{"role": "user"}], "input[0].content", "Missing"),
        ([{"role": "user", "content": 4}], "input[0].content", "array of parts"),
        ([{"role": "user", "content": ["x"]}], "input[0].content[0]", "an object"),
        ([{"role": "user", "content": [{"text": "x"}]}], "input[0].content[0].type", "Missing"),
        (
            [USER, {"role": "user", "content": [{"type": "input_text"}]}],
            "input[1].content[0].text",
            "Missing",
        ),
        (
            [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}],
            "input[0].content[0].file_id",
            "use file_data",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
            "input[0].content[0].image_url",
            "Missing",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": {}}]}],
            "input[0].content[0].image_url.url",
            "Missing",
        ),
        (
            [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}],
            "input[0].content[0]",
            "does not hear",
        ),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].type", "item_reference"),
        ([USER, {"type": "functoin_call"}], "input[1].type", 'Did you mean "function_call"'),
        ([USER, {"type": "weather_call"}], "input[1].type", "weather_call"),
        ([{"type": "custom_tool_call", "name": "f"}], "input[0].call_id", "Missing"),
        ([{"type": "shell_call", "call_id": "c"}], "input[0].action", "Missing"),
        ([{"type": "function_call", "name": "f"}], "input[0].call_id", "Missing"),
        ([{**CALL, "name": None}], "input[0].name", "Missing"),
        ([{**CALL, "arguments": {}}], "input[0].arguments", "a string"),
        (
            [{**CALL, "arguments": r'{"\udc00": 1}'}],
            "input[0].arguments",
            "half of a surrogate pair",
        ),
        ([CALL, {**OUTPUT, "output": 7}], "input[1].output", "a string or an array"),
    ],
)
def test_errors_name_the_place(value: object, param: str, text: str) -> None:
    error = refused(value)
    assert error.param == param
    assert text in str(error)


def test_images_need_a_vision_model_and_are_limited() -> None:
    image = {"type": "input_image", "image_url": "data:x"}
    item = {"role": "user", "content": [image, image, image]}
    assert refused([item]).param == "input[0].content[2]"
    assert "does not read images" in str(refused([item], RequestLimits()))


def test_too_many_items_are_refused() -> None:
    assert "maximum 2" in str(refused([USER] * 3, RequestLimits(max_messages=2)))
