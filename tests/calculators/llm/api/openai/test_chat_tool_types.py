"""Tools of chats that are not functions: custom ones, which take a text, and hosted ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.language.delta import FinishReason, Usage
from calculators.language.events import Arguments, OutputEvent, ToolCall
from calculators.llm.answers.response import AnswerChoice, ResponseHead
from calculators.llm.api.openai.completions_writer import ChatAnswerWriter
from calculators.llm.requests.client_tools import call_forms
from calculators.llm.requests.completions_request import ChatRequest, parse_chat_request
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

FUNCTION = {"type": "function", "function": {"name": "now"}}
PATCH = {"type": "custom", "custom": {"name": "patch", "description": "Patch files."}}
USER = {"role": "user", "content": "hi"}


@pytest.fixture(autouse=True)
def record() -> Iterator[RequestRecord]:
    made = RequestRecord("mine")
    set_current_record(made)
    yield made
    set_current_record(None)


def parsed(*tools: Any, **members: Any) -> ChatRequest:
    body = {"model": "m", "messages": [USER], "tools": list(tools), **members}
    return parse_chat_request(body, RequestLimits(), ModelDefaults())


def names(request: ChatRequest) -> list[str]:
    return [tool["function"]["name"] for tool in request.tools.items]


def streamed(request: ChatRequest, *events: OutputEvent) -> list[dict[str, Any]]:
    """Return the pieces of the calls of a stream, and check them against the whole answer."""
    head = ResponseHead("c", "m", 1, None)
    forms = call_forms(request.custom_tools)
    made = ChatAnswerWriter(head, forms=forms)
    text = "".join(made.more(0, [event], None) for event in events)
    text += made.finish(0, FinishReason.TOOL_CALLS)
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
    choice = AnswerChoice(list(events), FinishReason.TOOL_CALLS)
    body = json.loads(ChatAnswerWriter(head, forms=forms).whole([choice], Usage(1, 1)))
    gathered: list[dict[str, Any]] = []
    for piece in pieces:
        kind = "custom" if "custom" in piece else "function"
        if piece["index"] == len(gathered):
            gathered.append({**piece, kind: dict(piece[kind])})
            del gathered[-1]["index"]
        else:
            member = "input" if kind == "custom" else "arguments"
            gathered[-1][kind][member] += piece[kind][member]
    assert gathered == body["choices"][0]["message"]["tool_calls"]
    return gathered


def test_calls_of_custom_tools_have_their_text() -> None:
    request = parsed(FUNCTION, PATCH)
    assert names(request) == ["now", "patch"]
    written = json.dumps({"input": 'a "b"\n'})
    first, second, third = streamed(
        request,
        *(ToolCall("patch", "c1"), Arguments(written[:13]), Arguments(written[13:])),
        *(ToolCall("now", "c2"), Arguments("{}")),
        *(ToolCall("patch", "c3"), Arguments("no "), Arguments("JSON")),
    )
    assert first == {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": 'a "b"\n'}}
    assert second["function"] == {"name": "now", "arguments": "{}"}
    assert third["custom"]["input"] == "no JSON"


def test_a_custom_call_comes_back_with_its_result() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "x"}}
    said = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    messages = parsed(PATCH, messages=[USER, said, result]).messages
    function = messages[1]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("patch", {"input": "x"})


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        ({"type": "custom", "custom": {"name": "patch"}}, ["patch"]),
        ({"type": "function", "function": {"name": "now"}}, ["now"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [FUNCTION]},
            },
            ["now"],
        ),
        ("required", ["now", "patch"]),
    ],
)
def test_one_of_them_can_be_chosen(choice: Any, left: list[str]) -> None:
    assert names(parsed(FUNCTION, PATCH, tool_choice=choice)) == left


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_among_no_tools_is_no_fault_of_the_server(mode: str) -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": None}}
    body = {"model": "m", "messages": [USER], "tool_choice": choice}
    if mode == "auto":
        assert parse_chat_request(body, RequestLimits(), ModelDefaults()).tools.items == []
        return
    with pytest.raises(RequestError, match="tool"):
        parse_chat_request(body, RequestLimits(may_get_tools=False), ModelDefaults())


def test_functions_are_called_in_their_own_form() -> None:
    """The client has one place for a call, so a second one of the model is left out."""
    head = ResponseHead("c", "m", 1, None)
    written = (ToolCall("now", "1"), Arguments("{"), Arguments("}"), ToolCall("now", "2"))
    made = ChatAnswerWriter(head, has_functions=True)
    text = made.more(0, written, None) + made.finish(0, FinishReason.TOOL_CALLS)
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    choices = [json.loads(line)["choices"][0] for line in lines]
    calls = [each["delta"]["function_call"] for each in choices[:-1]]
    assert calls == [{"name": "now", "arguments": ""}, {"arguments": "{"}, {"arguments": "}"}]
    assert choices[-1]["finish_reason"] == "function_call"
    choice = AnswerChoice(list(written), FinishReason.TOOL_CALLS)
    body = json.loads(ChatAnswerWriter(head, has_functions=True).whole([choice], Usage(1, 1)))
    [whole] = body["choices"]
    assert whole["message"]["function_call"] == {"name": "now", "arguments": "{}"}
    assert whole["finish_reason"] == "function_call"
    assert "tool_calls" not in whole["message"]


@pytest.mark.parametrize("kind", ["web_search", "code_interpreter", "mcp"])
def test_hosted_tools_are_left_out_and_named(record: RequestRecord, kind: str) -> None:
    assert names(parsed(FUNCTION, {"type": kind})) == ["now"]
    [warning] = record.warnings
    assert "tools[1].type" in warning
    with pytest.raises(RequestError) as raised:
        parsed(FUNCTION, {"type": kind}, tool_choice={"type": kind})
    assert raised.value.param == "tool_choice.type"


def test_misspelt_types_and_long_names_are_refused() -> None:
    with pytest.raises(RequestError, match='Did you mean "function"'):
        parsed({"type": "fucntion", "function": {"name": "f"}})
    with pytest.raises(RequestError, match="1 to 64 letters"):
        parsed({"type": "custom", "custom": {"name": "f" * 65}})


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({}, "format.type"),
        ({"type": "ebnf"}, "format.type"),
        ({"type": "grammar", "grammar": {"definition": "a"}}, "format.grammar.syntax"),
        (
            {"type": "grammar", "grammar": {"syntax": "gbnf", "definition": "a"}},
            "format.grammar.syntax",
        ),
        ({"type": "grammar", "grammar": {"syntax": "regex"}}, "format.grammar.definition"),
    ],
)
def test_the_form_of_a_custom_tool_is_checked(form: Any, param: str) -> None:
    with pytest.raises(RequestError) as raised:
        parsed({"type": "custom", "custom": {"name": "f", "format": form}})
    assert raised.value.param == f"tools[0].custom.{param}"
