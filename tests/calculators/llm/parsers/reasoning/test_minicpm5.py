"""Reasoning as MiniCPM 5 writes it."""

from __future__ import annotations

from tests.calculators.llm.parsers.said import Said, parse


def test_reasoning_is_separated_from_the_answer() -> None:
    text = "<think>\nHm, ä.\n</think>\n\nHi."
    assert parse(text, reasoning="minicpm5") == Said("Hi.", "Hm, ä.", [])


def test_the_prompt_may_have_begun_the_reasoning() -> None:
    result = parse("Hm.</think>Hi.", reasoning="minicpm5", prompt="<think>\n")
    assert result == Said("Hi.", "Hm.", [])
    assert parse("Hm.", reasoning="minicpm5", prompt="<think>\n") == Said("", "Hm.", [])


def test_an_end_tag_without_a_beginning_is_content() -> None:
    assert parse("Hm.</think>Hi.", reasoning="minicpm5") == Said("Hm.</think>Hi.", "", [])


def test_reasoning_may_have_no_end() -> None:
    assert parse("<think>Hm.</thin", reasoning="minicpm5") == Said("", "Hm.</thin", [])
