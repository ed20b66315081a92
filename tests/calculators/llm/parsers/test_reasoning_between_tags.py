"""Reasoning of qwen3, alone and with calls behind it."""

from __future__ import annotations

import pytest

from calculators.language.events import Content, Reasoning
from tests.calculators.llm.parsers.said import parse, parsers

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("Hello", "", "Hello"),
        ("<think>\nHm.\n</think>\n\nHello", "Hm.", "Hello"),
        ("<think></think>Hello", "", "Hello"),
        ("A<think>b</think>C<think>d</think>E", "bd", "ACE"),
        ("<think>Hm, <think> again</think>Hello", "Hm,  again", "Hello"),
        ("<think>Hm</think>Hello\n</think>\n", "Hm", "Hello\n"),
        ("<think>Hm, and never", "Hm, and never", ""),
        ("no start</think>Hello", "", "no start</think>Hello"),
        ("<thin", "", "<thin"),
        ("<think>a</thin", "a</thin", ""),
        ("< think>1 < 2</think>", "", "< think>1 < 2</think>"),
        ("<think>日本語 😀</think>ü", "日本語 😀", "ü"),
    ],
)
def test_reasoning_is_separated_from_content(text: str, reasoning: str, content: str) -> None:
    assert parse(text, reasoning="qwen3") == (content, reasoning, [])


@pytest.mark.parametrize(
    ("prompt", "is_open"),
    [
        ("...assistant\n<think>", True),
        ("...assistant\n<think>\n \n", True),
        ("...assistant\n<think>\n\n</think>\n\n", False),
        ("...assistant\n", False),
        ("<think> about it", False),
        ("", False),
    ],
)
def test_a_prompt_may_begin_the_reasoning(prompt: str, is_open: bool) -> None:
    result = parse("Hm.</think>Hello", reasoning="qwen3", prompt=prompt)
    # A second end of the reasoning is left out.
    closed = "Hm.Hello" if prompt.rstrip().endswith("</think>") else "Hm.</think>Hello"
    assert result == (("Hello", "Hm.", []) if is_open else (closed, "", []))


def test_calls_are_found_after_the_reasoning_and_not_in_it() -> None:
    text = f"<think>Shall I {CALL}?</think>\n\n{CALL}\n"
    assert parse(text, "hermes3", "qwen3") == ("", f"Shall I {CALL}?", [("f", "{}")])


def test_reasoning_is_sent_as_it_grows() -> None:
    parser = parsers(reasoning="qwen3").start(tools=None)
    assert parser.feed("<think>He") == [Reasoning("He")]
    assert parser.feed("llo</th") == [Reasoning("llo")]
    assert parser.feed("ink>Hi") == [Content("Hi")]
    assert parser.finish() == []
