"""Calls as gpt-oss writes them, with and without its reasoning parser."""

from __future__ import annotations

import pytest

from calculators.language.events import Arguments, ToolCall
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.tool.gptoss import PARSER
from tests.calculators.llm.parsers.said import Said, events_of, parse, parsers, said

THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|>"
PREAMBLE = "<|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>"
CALL = (
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    '{"a": 1}<|call|>'
)
ANSWER = "<|start|>assistant<|channel|>final<|message|>It is 1.<|return|>"
ALL = THOUGHT + PREAMBLE + CALL + ANSWER


def test_all_kinds_of_messages_are_read() -> None:
    assert parse(ALL, "gptoss", "gptoss") == Said(
        "I look it up. It is 1.", "Hm.", [("f", '{"a": 1}')]
    )


def test_reasoning_without_its_parser_keeps_its_frame() -> None:
    assert parse(ALL, "gptoss") == Said(THOUGHT + "I look it up. It is 1.", "", [("f", '{"a": 1}')])


@pytest.mark.parametrize("tool", ["gptoss", None])
def test_without_tools_no_header_of_an_answer_shows(tool: str | None) -> None:
    chosen: OutputParsers = parsers(tool, "gptoss")
    text = THOUGHT + PREAMBLE + ANSWER
    result = said(events_of(chosen.start(tools=None), text))
    assert result == Said("I look it up. It is 1.", "Hm.", [])
    assert said(events_of(chosen.start(tools=None), CALL)).content == CALL


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.f<|message|>",
        "<|channel|>commentary   to=functions.f <|message|>",
        "<|channel|>analysis to=functions.f code<|message|>",
        "<|channel|>commentary to=functions.f<|constrain|>json<|message|>",
        "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>",
        "<|start|>assistant to=functions.f<|channel|>commentary<|message|>",
        "<|start|>assistant to=functions.f<|message|>",
    ],
)
@pytest.mark.parametrize("reasoning", [None, "gptoss"])
def test_headers_of_calls_may_vary(header: str, reasoning: str | None) -> None:
    for end in ("<|call|>", "<|end|>", "<|return|>", ""):
        text = header + ' {"a":"ä"}' + end
        assert parse(text, "gptoss", reasoning) == Said("", "", [("f", ' {"a":"ä"}')])


def test_one_of_several_calls_may_lack_its_end() -> None:
    text = CALL + CALL.removesuffix("<|call|>") + CALL
    assert parse(text, "gptoss", "gptoss").calls == [("f", '{"a": 1}')] * 3


def test_a_call_begins_with_its_header_and_its_arguments_are_streamed() -> None:
    parser = PARSER()
    assert parser.feed("<|channel|>commentary to=functions.f <|mess") == []
    assert parser.feed('age|>{"a') == [ToolCall("f"), Arguments('{"a')]
    assert parser.feed('":<') == [Arguments('":')]
    assert parser.feed("|") == []
    assert parser.feed("1") == [Arguments("<|1")]
    assert parser.finish() == []


def test_a_call_without_text_has_no_arguments() -> None:
    text = "<|channel|>commentary to=functions.f<|message|><|call|>"
    assert parse(text, "gptoss").calls == [("f", "{}")]


@pytest.mark.parametrize(
    "text",
    [
        "Hello <|channel",
        "<|channel|>",
        "<|start|>assistant<|channel|>commentary to=functions.f",
        "<|channel|>commentary to=functions.<|message|>x<|call|>",
        "<|channel|>commentary to=f<|message|>x<|call|>",
        "<|channel|>final to=functions.f<|message|>x<|call|>",
        "<|start|>assistant to=browser.search<|channel|>commentary<|message|>x<|call|>",
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>x<|end|>",
        "<|channel|>" + "x" * 1000 + "<|message|>x",
        "<|channel|><|channel|><|channel|>",
        "<|message|>x",
    ],
)
@pytest.mark.parametrize("reasoning", [None, "gptoss"])
def test_unknown_messages_are_content(text: str, reasoning: str | None) -> None:
    assert parse(text, "gptoss", reasoning) == Said(text, "", [])
