"""Reasoning as Onyx models write it."""

from __future__ import annotations

import pytest

from tests.calculators.llm.parsers.said import Said, parse


def test_reasoning_is_separated_from_the_answer() -> None:
    text = " to=self<|message|> Hm,\nä.<|eom|><|start|>assistant to=user<|message|>Hi.<|eot|>"
    assert parse(text, reasoning="onyx") == Said("Hi.", " Hm,\nä.", [])


def test_several_reasoning_messages_are_joined_by_line_ends() -> None:
    text = "to=self<|message|>A<|eom|> to=self<|message|>B<|eom|><|message|>C"
    assert parse(text, reasoning="onyx") == Said("C", "A\nB", [])


def test_a_message_may_begin_within_text_and_without_the_end_of_the_one_before() -> None:
    text = "to=self<|message|>r<|eom|>answer to=self<|message|>r2<|eom|>end"
    assert parse(text, reasoning="onyx") == Said("answerend", "r\nr2", [])
    assert parse(text, "onyx", "onyx", tools={"f": {}}) == Said("answerend", "r\nr2", [])
    text = "to=self<|message|>Hm. to=user<|message|>Go to=you or"
    assert parse(text, reasoning="onyx") == Said("Go to=you or", "Hm.", [])


@pytest.mark.parametrize("prompt", ["<|start|>assistant to=self<|message|>", "assistant to=self\n"])
@pytest.mark.parametrize("begin", ["", "<|message|>"])
def test_the_prompt_may_have_begun_the_reasoning(prompt: str, begin: str) -> None:
    text = begin + "Hm.<|eom|> to=user<|message|>Hi."
    assert parse(text, reasoning="onyx", prompt=prompt) == Said("Hi.", "Hm.", [])


def test_messages_to_others_are_content_without_their_frames() -> None:
    text = "<|start|>assistant to=get_weather<|message|>text<|eom|>\n<|start|>assistant to=user"
    assert parse(text + "<|message|>Hi.", reasoning="onyx") == Said("textHi.", "", [])


@pytest.mark.parametrize("text", ["Hello", " to see you", "to=", "to=self but no message", "\n\n "])
def test_text_without_frames_is_content(text: str) -> None:
    assert parse(text, reasoning="onyx") == Said(text, "", [])
