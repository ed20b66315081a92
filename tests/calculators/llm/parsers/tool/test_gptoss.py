"""Calls as gpt-oss writes them, with and without its reasoning parser."""

from __future__ import annotations

import pytest

from calculators.language.events import Arguments, ToolCall
from calculators.llm.parsers.harmony import GptOssParser
from calculators.llm.parsers.output_parsers import OutputParsers
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


def test_reasoning_without_its_parser_is_content_without_its_frame() -> None:
    assert parse(ALL, "gptoss") == Said("Hm.I look it up. It is 1.", "", [("f", '{"a": 1}')])


@pytest.mark.parametrize("tool", ["gptoss", None])
def test_without_tools_no_header_of_an_answer_shows(tool: str | None) -> None:
    chosen: OutputParsers = parsers(tool, "gptoss")
    text = THOUGHT + PREAMBLE + ANSWER
    result = said(events_of(chosen.start(tools=None), text))
    assert result == Said("I look it up. It is 1.", "Hm.", [])
    assert said(events_of(chosen.start(tools=None), CALL)) == Said('{"a": 1}', "", [])


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
        " to=functions.f<|channel|>commentary <|constrain|>json<|message|>",
        "to=functions.f<|channel|>commentary<|message|>",
        " to=f<|channel|>analysis code<|message|>",
        "<|channel|>commentary to=f<|message|>",
        "<|channel|>commentary json to=f<|message|>",
        "<|channel|>commentary <|constrain|>json to=functions.f<|message|>",
        "<|channel|>final to=functions.f<|message|>",
        "<|channel|>commentary to=functions.f<|channel|>commentary <|constrain|>json<|message|>",
        "<|start|>assistant<|channel|>analysis<|channel|>commentary to=f<|message|>",
        "assistant<|channel|>commentary to=functions.f<|message|>",
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
    parser = GptOssParser({})
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
    ("text", "content", "reasoning"),
    [
        ("Hello <|channel", "Hello <|channel", ""),
        ("to=day is", "to=day is", ""),
        (" to the point", " to the point", ""),
        ("<|channel|>", "", ""),
        ("<|start|>assistant<|channel|>commentary to=functions.f", "", ""),
        (" to=functions.f<|channel|>comm", "", ""),
        ("<|start|>assistantHi", "Hi", ""),
        ("<|channel|>commentary to=functions.<|message|>x<|call|>", "x", ""),
        ("<|start|>assistant to=assistant<|channel|>final<|message|>x<|end|>", "x", ""),
        ("<|channel|>commentary to=assistant<|message|>x<|end|>", "x", ""),
        ("<|channel|>analysis to=assistant<|message|>x<|end|>", "", "x"),
        (" to=python<|channel|>analysis code<|message|>1+1<|call|>", "", "1+1"),
        ("<|channel|>commentary to=browser.search<|message|>x<|call|>", "", "x"),
        ("<|start|>functions.f to=assistant<|channel|>commentary<|message|>x<|end|>", "x", ""),
        ("<|channel|>" + "x" * 1000 + "<|message|>x", "x" * 1001, ""),
        ("<|channel|><|channel|><|channel|>", "", ""),
        ("<|message|>x", "x", ""),
        ("<|channel|>analysis<|channel|>final<|message|>x", "x", ""),
        ("analysis<|message|>y<|end|>assistant<|channel|>final<|message|>x", "x", "y"),
        ("<|channel|>analysis<|message|>y<|end|>assistant final<|message|>x", "x", "y"),
        ("final", "final", ""),
        ("assistants < all", "assistants < all", ""),
        ("<|channel|>final<|message|>a<|message|>b<|constrain|>c", "abc", ""),
    ],
)
def test_no_token_of_the_form_is_shown(text: str, content: str, reasoning: str) -> None:
    assert parse(text, "gptoss", "gptoss") == Said(content, reasoning, [])
    chosen = parsers(None, "gptoss")
    assert said(events_of(chosen.start(tools=None), text)) == Said(content, reasoning, [])


def test_a_tool_of_the_request_may_have_the_name_of_a_built_in_one() -> None:
    text = " to=python<|channel|>analysis<|message|>{}<|call|>"
    assert parse(text, "gptoss", "gptoss", tools={"python": {}}).calls == [("python", "{}")]
