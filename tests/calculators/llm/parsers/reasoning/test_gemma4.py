"""Reasoning as Gemma 4 writes it."""

from __future__ import annotations

import pytest

from tests.calculators.llm.parsers.said import Said, parse


@pytest.mark.parametrize("line_end", ["\n", ""])
def test_reasoning_is_separated_from_the_answer(line_end: str) -> None:
    text = f"<|channel>thought{line_end}Hm,\nä.\n<channel|>Hi."
    assert parse(text, reasoning="gemma4") == Said("Hi.", "Hm,\nä.", [])


def test_text_may_precede_reasoning_and_more_reasoning_follow() -> None:
    thought = "<|channel>thought\nHm.<channel|>"
    assert parse(f"A{thought}B{thought}C", reasoning="gemma4") == Said("ABC", "Hm.Hm.", [])


@pytest.mark.parametrize("prompt", ["<|channel>thought", "<|channel>thought\n"])
def test_the_prompt_may_have_begun_the_reasoning(prompt: str) -> None:
    result = parse("Hm.<channel|>Hi.", reasoning="gemma4", prompt=prompt)
    assert result == Said("Hi.", "Hm.", [])


def test_reasoning_may_have_no_end() -> None:
    assert parse("<|channel>thought\nHm.<chan", reasoning="gemma4").reasoning == "Hm.<chan"


@pytest.mark.parametrize("text", ["Hi <|channel>", "<|channel>other\nx"])
def test_text_without_the_tags_is_content(text: str) -> None:
    assert parse(text, reasoning="gemma4") == Said(text, "", [])
