"""Tools at SmolLM2, whose chat template knows none."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.process.http_client import CHAT, HttpClient
from tests.real_models.asking import MODEL, WEATHER, chat, events, message, post

QUESTION = "What is the weather in Paris?"
NAMED = {"type": "function", "function": {"name": "get_weather"}}
TIME: dict[str, Any] = {"type": "function", "function": {"name": "get_time"}}


def check(name: str, arguments: str) -> None:
    assert name == "get_weather"
    jsonschema.validate(json.loads(arguments), WEATHER["function"]["parameters"])
    assert json.loads(arguments)["city"] == "Paris"


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_chat_is_made_to_call(client: HttpClient, choice: Any) -> None:
    tools = [WEATHER, TIME] if choice == NAMED else [WEATHER]
    body = chat(
        client, QUESTION, tools=tools, tool_choice=choice, parallel_tool_calls=False, max_tokens=120
    )
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    (call,) = message(body)["tool_calls"]
    check(call["function"]["name"], call["function"]["arguments"])


def test_a_streamed_chat_is_made_to_call(client: HttpClient) -> None:
    streamed = events(
        client, CHAT, messages=[{"role": "user", "content": QUESTION}], tools=[WEATHER],
        tool_choice="required", parallel_tool_calls=False, max_tokens=120,
    )  # fmt: skip
    deltas = [each["choices"][0]["delta"] for each in streamed if each["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    assert not any(delta.get("content") for delta in deltas)
    check(
        "".join(call.get("name") or "" for call in calls),
        "".join(call.get("arguments") or "" for call in calls),
    )


def test_a_response_and_a_message_are_made_to_call(client: HttpClient) -> None:
    function = WEATHER["function"]
    response = post(
        client, "/v3/responses", input=QUESTION, tools=[{"type": "function", **function}],
        tool_choice="required", parallel_tool_calls=False, max_output_tokens=120,
    )  # fmt: skip
    (item,) = response["output"]
    check(item["name"], item["arguments"])
    answer = post(
        client, "/v3/messages", messages=[{"role": "user", "content": QUESTION}], max_tokens=120,
        tools=[{"name": function["name"], "input_schema": function["parameters"]}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )  # fmt: skip
    (block,) = answer["content"]
    check(block["name"], json.dumps(block["input"]))


def test_the_result_of_a_call_is_read(client: HttpClient) -> None:
    asked = {"role": "user", "content": QUESTION}
    first = message(
        chat(client, QUESTION, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False,
             max_tokens=120)
    )  # fmt: skip
    result = {
        "role": "tool",
        "tool_call_id": first["tool_calls"][0]["id"],
        "content": "12 degrees and rain",
    }
    body = chat(
        client, messages=[asked, first, result], tools=[WEATHER], tool_choice="none", max_tokens=80
    )
    content = message(body)["content"]
    assert "12" in content or "rain" in content


def test_the_tools_are_in_the_prompt(client: HttpClient) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    without = client.post("/v3/messages/count_tokens", model=MODEL, messages=messages)
    function = WEATHER["function"]
    tools = [{"name": function["name"], "input_schema": function["parameters"]}]
    with_tools = client.post(
        "/v3/messages/count_tokens", model=MODEL, messages=messages, tools=tools
    )
    assert with_tools.json["input_tokens"] > without.json["input_tokens"] + 50
