"""Reasoning as gpt-oss writes it."""

from __future__ import annotations

import pytest

from calculators.language.events import Content, Reasoning
from calculators.llm.parsers.harmony import GptOssParser
from tests.calculators.llm.parsers.said import Said, parse

FINAL = "<|start|>assistant<|channel|>final<|message|>"


def test_reasoning_is_separated_from_the_answer() -> None:
    text = "<|channel|>analysis<|message|> Hm,\nä.<|end|>" + FINAL + "Hi.<|return|>"
    assert parse(text, reasoning="gptoss") == Said("Hi.", " Hm,\nä.", [])


def test_messages_of_one_kind_are_joined_by_a_space() -> None:
    analysis = "<|channel|>analysis<|message|>"
    text = f"{analysis}A<|end|>{FINAL}1<|end|>{analysis}<|end|>{analysis}B<|end|>{FINAL}2"
    assert parse(text, reasoning="gptoss") == Said("1 2", "A B", [])


@pytest.mark.parametrize("end", ["<|end|>", "<|return|>", "<|call|>", ""])
def test_the_prompt_may_have_begun_the_reasoning(end: str) -> None:
    prompt = "<|start|>assistant<|channel|>analysis<|message|>\n"
    result = parse("Hm." + end + FINAL + "Hi.", reasoning="gptoss", prompt=prompt)
    assert result == Said("Hi.", "Hm.", [])


def test_an_answer_may_name_a_format() -> None:
    text = '<|channel|>final <|constrain|>JSON<|message|>{"a": 1}<|return|>'
    assert parse(text, reasoning="gptoss").content == '{"a": 1}'


def test_an_answer_may_have_no_channel() -> None:
    assert parse("<|start|>assistant<|message|>Hi.", reasoning="gptoss").content == "Hi."


def test_text_is_passed_on_as_it_arrives() -> None:
    parser = GptOssParser(takes_reasoning=True)
    assert parser.feed("<|channel|>analysis<|message|>Hm") == [Reasoning("Hm")]
    assert parser.feed(" well<|e") == [Reasoning(" well")]
    assert parser.feed("nd|><|channel|>final<|message|>Hi") == [Content("Hi")]
    assert parser.finish() == []


def test_text_without_frames_is_content() -> None:
    assert parse("Hello <|there<|end|>", reasoning="gptoss") == Said("Hello <|there", "", [])
