"""Preparation of messages for the template."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis
from calculators.llm.prompt.chat_template.chat_renderer import prepare_history


def prepared(message: dict[str, Any], **analysis: Any) -> dict[str, Any]:
    before = copy.deepcopy(message)
    (after,) = prepare_history([message], TemplateAnalysis(**analysis))
    assert message == before, "what came in is not changed"
    return after


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def call(arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": arguments}}],
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", "plain"),
        ([], None),
        ([text("a")], "a"),
        ([text("a"), text("b")], "ab"),
        ([text(""), text("a"), text("\n"), text(""), text("b")], "a\nb"),
        ([text("<ov_genai_image_0>"), text("a"), text("b")], "<ov_genai_image_0>\nab"),
        ([text(""), text("")], ""),
    ],
)
def test_content_becomes_one_text(content: Any, expected: Any) -> None:
    assert prepared({"role": "user", "content": content})["content"] == expected


def test_content_with_other_parts_stays_a_list() -> None:
    content = [text("a"), {"type": "image_url", "image_url": {"url": "x"}}]
    assert prepared({"role": "user", "content": content})["content"] == content


def test_an_empty_list_of_tool_calls_is_removed() -> None:
    assert "tool_calls" not in prepared({"role": "assistant", "content": "", "tool_calls": []})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1.0, "b/c": [null]}', {"a": 1.0, "b/c": [None]}),
        ({"a": [1, None]}, {"a": [1, None]}),
        ("not json {", "not json {"),
        ("", {}),
        ("[1]", "[1]"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_become_objects_where_the_template_wants_them(
    arguments: Any, expected: Any
) -> None:
    after = prepared(call(arguments), requires_object_arguments=True)
    assert after["tool_calls"][0]["function"]["arguments"] == expected
    as_text = json.dumps(arguments) if isinstance(arguments, dict) else arguments or "{}"
    assert prepared(call(arguments)) == call(as_text)


def test_tool_calls_of_any_shape_are_passed_on() -> None:
    message = {"role": "assistant", "tool_calls": ["x", {}, {"function": 1}, {"function": {}}]}
    assert prepared(message, requires_object_arguments=True) == message


def test_reasoning_is_copied_to_the_field_that_the_template_reads() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "b"}
    after = prepared(message, misnamed_reasoning_field="thinking")
    assert after == {**message, "thinking": "b"}
    assert prepared(message) == message


def test_reasoning_is_left_out_where_the_template_refuses_it_beside_text() -> None:
    refuses = {"misnamed_reasoning_field": "thinking", "reasoning_excludes_content": True}
    message = {**call("{}"), "reasoning_content": "b"}
    assert prepared({**message, "content": "a"}, **refuses) == {**message, "content": "a"}
    assert prepared({**message, "content": ""}, **refuses)["thinking"] == "b"
    answer = {"role": "assistant", "content": "a", "reasoning_content": "b"}
    assert prepared(answer, **refuses)["thinking"] == "b", "only calls are refused"
