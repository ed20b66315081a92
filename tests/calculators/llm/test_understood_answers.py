"""Parsed answers of the real model through a graph: calls of tools, reasoning, raw text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.task_options import LlmSettings
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, RESPONSES, Answered, Asking

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PARIS: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather in Paris?"}]


def gathered(answered: Answered, choice: int = 0) -> dict[str, Any]:
    """Return the message that the deltas of a stream form, accumulated as OpenAI's clients do."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for event in answered.events:
        for each in event["choices"]:
            if each["index"] != choice:
                continue
            delta = each["delta"]
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({**call, "function": {**call["function"]}})
                else:
                    assert set(call) == {"index", "function"}
                    function = message["tool_calls"][call["index"]]["function"]
                    function["arguments"] += call["function"]["arguments"]
            if each["finish_reason"]:
                message["finish_reason"] = each["finish_reason"]
    return message


def test_a_call_of_a_tool_is_found(ask: Asking) -> None:
    (choice,) = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60).body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert len(call["id"]) == 9
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    assert choice["message"]["content"] == ""
    assert choice["finish_reason"] == "tool_calls"


def test_a_streamed_call_equals_the_whole_one(ask: Asking) -> None:
    asked: dict[str, Any] = {"messages": PARIS, "tools": [WEATHER], "max_tokens": 60}
    whole = ask(CHAT, **asked).body["choices"][0]["message"]
    streamed = gathered(ask(CHAT, stream=True, **asked))
    (call,) = streamed["tool_calls"]
    assert call["function"] == whole["tool_calls"][0]["function"]
    assert streamed["content"] == whole["content"]
    assert streamed["finish_reason"] == "tool_calls"


def test_a_tools_result_is_answered(ask: Asking) -> None:
    first = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60).body["choices"][0]["message"]
    (call,) = first["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "12 degrees and rain"}
    messages = [*PARIS, {**first, "content": None}, result]
    (choice,) = ask(CHAT, messages=messages, tools=[WEATHER], max_tokens=60).body["choices"]
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "stop"
    assert "12" in choice["message"]["content"] or "rain" in choice["message"]["content"]


def test_without_tools_nothing_is_taken_for_a_call(ask: Asking) -> None:
    (choice,) = ask(CHAT, messages=PARIS, max_tokens=60).body["choices"]
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] in ("stop", "length")
    none = ask(CHAT, messages=PARIS, tools=[WEATHER], tool_choice="none", max_tokens=60).body
    assert none["choices"][0]["message"] == choice["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_separated_from_the_answer(ask: Asking, stream: bool) -> None:
    asked: dict[str, Any] = {"max_tokens": 80, "chat_template_kwargs": {"enable_thinking": True}}
    answered = ask(CHAT, stream=stream, **asked)
    message = gathered(answered) if stream else answered.body["choices"][0]["message"]
    assert message["reasoning_content"]
    assert message["content"]
    for text in (message["reasoning_content"], message["content"]):
        assert "think>" not in text


def test_each_of_several_equal_answers_has_its_calls(ask: Asking) -> None:
    body = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60, n=2).body
    assert [len(each["message"]["tool_calls"]) for each in body["choices"]] == [1, 1]
    streamed = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60, n=2, stream=True)
    assert [len(gathered(streamed, index)["tool_calls"]) for index in (0, 1)] == [1, 1]


def test_a_call_that_is_cut_off_ends_by_length(ask: Asking) -> None:
    full = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60).body
    cut = full["usage"]["completion_tokens"] - 4
    (choice,) = ask(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=cut).body["choices"]
    assert choice["finish_reason"] == "length"


def test_log_probabilities_include_the_tokens_of_a_call(ask: Asking) -> None:
    asked: dict[str, Any] = {"messages": PARIS, "tools": [WEATHER], "max_tokens": 60}
    body = ask(CHAT, logprobs=True, **asked).body
    (choice,) = body["choices"]
    streamed = ask(CHAT, logprobs=True, stream=True, **asked)
    tokens = [
        token
        for event in streamed.events
        for each in event["choices"]
        for token in (each["logprobs"] or {"content": []})["content"]
    ]
    assert tokens == choice["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens).count("<tool_call>") == 1


class TestVerboseResponse:
    @pytest.fixture
    def verbose(self, ask: Asking, monkeypatch: pytest.MonkeyPatch) -> Asking:
        monkeypatch.setattr(ask.servable, "settings", LlmSettings(verbose_response=True))
        return ask

    def test_a_chat_shows_prompt_and_raw_text(self, verbose: Asking) -> None:
        body = verbose(CHAT, messages=PARIS, tools=[WEATHER], max_tokens=60).body
        shown = body["__verbose"]
        assert shown["prompt"].startswith("<|im_start|>system\n")
        assert shown["prompt"].endswith("<|im_start|>assistant\n")
        assert shown["content"].startswith("<tool_call>\n")

    def test_a_stream_shows_them_at_its_end(self, verbose: Asking) -> None:
        asked: dict[str, Any] = {"messages": PARIS, "tools": [WEATHER], "max_tokens": 60}
        whole = verbose(CHAT, **asked).body["__verbose"]
        events = verbose(CHAT, stream=True, **asked).events
        assert [event.get("__verbose") for event in events] == [None] * (len(events) - 1) + [whole]

    def test_a_completion_shows_them(self, verbose: Asking) -> None:
        body = verbose(COMPLETIONS, prompt=["The capital", "A packet"], max_tokens=5).body
        assert body["__verbose"]["prompt"] == "The capital"
        assert body["__verbose"]["content"].startswith(body["choices"][0]["text"])

    def test_they_are_hidden_by_default(self, ask: Asking) -> None:
        assert "__verbose" not in ask(CHAT).body


COMMIT = {
    "type": "grammar",
    "syntax": "lark",
    "definition": """
        start: kind ": " WORD~1..3 "\\n"
        kind: "fix" | "add"
        WORD: /[a-z]{2,5} ?/
        """,
}
COMMITTED = re.compile("(fix|add): ([a-z]{2,5} ?){1,3}\n")


@pytest.mark.parametrize("choice", ["required", {"type": "custom", "name": "commit"}])
def test_the_text_of_a_custom_tool_follows_its_grammar(ask: Asking, choice: Any) -> None:
    tool = {"type": "custom", "name": "commit", "format": COMMIT}
    asked: dict[str, Any] = {
        "input": "Commit", "tools": [tool], "tool_choice": choice, "max_output_tokens": 200,
        "temperature": 1, "seed": 7, "parallel_tool_calls": False,
    }  # fmt: skip
    (item,) = ask(RESPONSES, **asked).body["output"]
    assert item["type"] == "custom_tool_call"
    assert COMMITTED.fullmatch(item["input"])
    streamed = "".join(ask(RESPONSES, **asked, stream=True).values)
    assert "response.custom_tool_call_input.done" in streamed
    assert json.dumps(item["input"]) in streamed


def test_a_chats_custom_tool_follows_its_grammar_too(ask: Asking) -> None:
    form = {"type": "grammar", "grammar": {k: v for k, v in COMMIT.items() if k != "type"}}
    tool = {"type": "custom", "custom": {"name": "commit", "format": form}}
    answer = ask(CHAT, messages=PARIS, tools=[tool], tool_choice="required", max_tokens=200).body
    (call, *_) = answer["choices"][0]["message"]["tool_calls"]
    assert COMMITTED.fullmatch(call["custom"]["input"])


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_grammar_that_cannot_be_read_is_refused(ask: Asking, choice: str) -> None:
    form = {**COMMIT, "definition": 'start: "a" )'}
    tool = {"type": "custom", "name": "commit", "format": form}
    with pytest.raises(RequestError, match="line 1: expected the end of the line") as raised:
        ask(RESPONSES, input="Commit", tools=[tool], tool_choice=choice)
    assert raised.value.param == "tools[0].format.definition"
