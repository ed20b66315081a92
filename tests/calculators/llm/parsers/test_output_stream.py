"""`OutputParsers` and `AnswerParser`: the parsers of one answer together."""

from __future__ import annotations

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall, merged
from calculators.llm.parsers.output_parsers import OutputParsers
from tests.calculators.llm.parsers.said import parsers

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def test_without_parsers_everything_is_content() -> None:
    stream = OutputParsers().start(tools={})
    assert stream.feed(CALL) == [Content(CALL)]
    assert stream.feed("") == []
    assert stream.finish() == []


def test_calls_are_text_when_the_request_has_no_tools() -> None:
    chosen = parsers("hermes3", "qwen3")
    stream = chosen.start(tools=None)
    assert stream.feed("<think>a</think>" + CALL) == [Reasoning("a"), Content(CALL)]
    stream = chosen.start(tools={})
    assert stream.feed(CALL) == [ToolCall("f"), Arguments("{}")]
    stream = chosen.start(tools={"g": {"type": "object"}})
    assert stream.feed(CALL) == [ToolCall("f"), Arguments("{}")]


def test_text_that_parsers_hold_back_is_sent_at_the_end_in_order() -> None:
    stream = parsers("hermes3", "qwen3").start(tools={})
    assert stream.feed("a <tool_call>{<thi") == [Content("a <tool_call>{")]
    assert stream.finish() == [Content("<thi")]


def test_answers_do_not_share_state() -> None:
    chosen = parsers("hermes3", "qwen3")
    chosen.start(tools={}).feed("<think><tool_call>{")
    assert chosen.start(tools={}).feed("x") == [Content("x")]


def test_adjacent_texts_of_one_kind_are_one_event() -> None:
    events: list[OutputEvent] = [
        Content("a"),
        Content("b"),
        Reasoning("c"),
        Content("d"),
        Content("e"),
    ]
    assert merged(events) == [Content("ab"), Reasoning("c"), Content("de")]
    calls: list[OutputEvent] = [
        ToolCall("f"),
        Arguments("1"),
        Arguments("2"),
        ToolCall("f"),
        ToolCall("g"),
    ]
    assert merged(calls) == [ToolCall("f"), Arguments("12"), ToolCall("f"), ToolCall("g")]


def test_special_tokens_are_those_of_both_parsers() -> None:
    reasoning, calls = {"<think>", "</think>"}, {"<tool_call>", "</tool_call>"}
    special = [*reasoning, *calls, "<|im_end|>", "<function"]
    chosen = parsers("hermes3", "qwen3")
    assert chosen.shown(special, with_calls=True) == reasoning | calls
    assert chosen.shown(special, with_calls=False) == reasoning
    # A token may be a part of a mark.
    assert "<function" in parsers("minicpm5").shown(special, with_calls=True)
    assert OutputParsers().shown(special, with_calls=True) == set()
    assert not OutputParsers().reasoning_is_open("<think>")
