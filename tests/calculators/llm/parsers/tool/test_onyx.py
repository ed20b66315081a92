"""Calls as Onyx models write them."""

from __future__ import annotations

import pytest

from tests.calculators.llm.parsers.said import Said, parse

INVOKE = '<atem:invoke name="f">\n<atem:parameter name="a">{}</atem:parameter>\n</atem:invoke>'
BLOCK = "<atem:function_calls>\n" + INVOKE + "\n</atem:function_calls>"
TOOLS = {"f": {"properties": {"a": {"type": "string"}}}}


@pytest.mark.parametrize("reasoning", [None, "onyx"])
@pytest.mark.parametrize("text", [BLOCK, INVOKE, "to=f<|message|>" + BLOCK + "<|eom|>"])
def test_a_call_is_found_with_and_without_its_frame(text: str, reasoning: str | None) -> None:
    result = parse(text.replace("{}", " x\n"), "onyx", reasoning, tools=TOOLS)
    assert result == Said("", "", [("f", r'{"a":" x\n"}')])


@pytest.mark.parametrize("reasoning", [None, "onyx"])
def test_calls_and_an_answer_may_be_several_messages(reasoning: str | None) -> None:
    text = (
        f" to=f<|message|>{BLOCK}<|eom|><|start|>assistant to=f<|message|>{BLOCK}<|eom|>"
        "<|start|>assistant to=user<|message|>Done.<|eot|>"
    )
    calls = [("f", '{"a":"{}"}')] * 2
    assert parse(text, "onyx", reasoning, tools=TOOLS) == Said("Done.", "", calls)


def test_a_block_may_have_several_calls() -> None:
    text = f"<atem:function_calls>{INVOKE}\n{INVOKE}</atem:function_calls>"
    assert parse(text, "onyx", tools=TOOLS) == Said("", "", [("f", '{"a":"{}"}')] * 2)


def test_calls_are_found_after_reasoning_and_not_in_it() -> None:
    text = f"to=self<|message|>{INVOKE}<|eom|> to=f<|message|>{INVOKE}<|eot|>"
    assert parse(text, "onyx", "onyx", tools=TOOLS) == Said("", INVOKE, [("f", '{"a":"{}"}')])


def test_reasoning_without_its_parser_keeps_its_frame() -> None:
    text = " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hi.<|eot|>"
    assert parse(text, "onyx").content == " to=self<|message|>Hm.<|eom|>Hi."


@pytest.mark.parametrize(
    "text",
    [
        "to",
        " to be or not",
        '<atem:invoke name="f"',
        "to=f and no message",
    ],
)
def test_text_that_is_not_a_call_is_content(text: str) -> None:
    assert parse(text, "onyx", tools=TOOLS) == Said(text, "", [])


def test_incomplete_headers_are_left_out() -> None:
    assert parse("A<|start|>assistant B<|message|>C<|eot|>", "onyx").content == "ABC"
