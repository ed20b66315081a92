"""Counts of reasoning tokens in ``usage``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calculators.language.events import OutputEvent, merged
from calculators.llm.answers.choice import (
    Choice,
    ReasoningCount,
    StopStrings,
    turning_tokens,
)
from calculators.llm.detokenizer import TableDetokenizer
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import reasoning_parser, tool_parser
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, RESPONSES, Answered, Asking

PIECES = [
    *(b"<think>", b"</think>", b"\n", b"Well", b",", b" so", b"Paris", b"."),
    *(
        "\N{SNOWMAN}".encode()[:1],
        "\N{SNOWMAN}".encode()[1:],
        b" <",
        b"/th",
        b"ink>",
        b"<tool_call>",
    ),
    *(b'{"name": "f", "arguments": {}}', b"</tool_call>", b"<", b""),
]
IDS = {piece: number for number, piece in enumerate(PIECES)}
PARSERS = OutputParsers(tool_parser("hermes3"), reasoning_parser("qwen3"))


#: Tokens in which a tag may begin, as a server knows them; or None, if it does not.
TURNING = turning_tokens(("<think>", "</think>"), PIECES)
#: A special token, which has no text.
HIDDEN = IDS[b""]


def choice_of(
    *stops: str, opened: bool = False, turning: frozenset[int] | None = TURNING
) -> Choice:
    return Choice(
        TableDetokenizer(PIECES, strips_space=False),
        StopStrings(stops),
        PARSERS.start(tools={"f": {}}, prompt="<think>" if opened else ""),
        reasoning=ReasoningCount(turning, {HIDDEN}),
    )


def ids(*pieces: bytes | str) -> list[int]:
    return [IDS[each if isinstance(each, bytes) else each.encode()] for each in pieces]


def counted(choice: Choice, tokens: list[int], *, at_once: int, scored: bool) -> int | None:
    """Feed the tokens in groups of this size, then end; return the count."""

    async def run() -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for place in range(0, len(tokens), at_once):
            some = tokens[place : place + at_once]
            if scored:
                events += (await choice.feed(some, [-1.0] * len(some))).events
            else:
                events += await choice.feed_plain(some)
        return merged([*events, *(await choice.finish()).events])

    asyncio.run(run())
    assert choice.completion_tokens == len(tokens)
    return choice.reasoning_tokens


THOUGHT = ids("<think>", "\n", "Well", ",", " so", "\n")
SAID = ids("</think>", "\n", "Paris", ".")


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
class TestCount:
    def test_reasoning_counts_from_its_tag_to_its_last_token(
        self, at_once: int, scored: bool
    ) -> None:
        tokens = THOUGHT + SAID
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == len(THOUGHT)

    def test_an_answer_without_reasoning_counts_none(self, at_once: int, scored: bool) -> None:
        assert counted(choice_of(), ids("Paris", "."), at_once=at_once, scored=scored) == 0

    def test_reasoning_opened_by_the_prompt_counts_from_the_beginning(
        self, at_once: int, scored: bool
    ) -> None:
        tokens = ids("Well", ",") + SAID
        assert counted(choice_of(opened=True), tokens, at_once=at_once, scored=scored) == 2

    def test_reasoning_that_is_cut_off_counts(self, at_once: int, scored: bool) -> None:
        tokens = ids("<think>", "Well", ",", "<")
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == 4

    def test_all_tokens_of_a_character_count(self, at_once: int, scored: bool) -> None:
        tokens = ids("<think>", "Well", *PIECES[8:10]) + SAID
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == 4

    def test_text_that_might_be_the_tag_counts_when_it_is_not(
        self, at_once: int, scored: bool
    ) -> None:
        tokens = ids("<think>", "Well", " <", "/th", " so") + SAID
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == 5

    def test_hidden_tokens_belong_to_what_follows(self, at_once: int, scored: bool) -> None:
        tokens = [*ids("Paris"), HIDDEN, *ids("<think>", "Well"), HIDDEN, *SAID]
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == 3

    def test_a_call_is_not_reasoning(self, at_once: int, scored: bool) -> None:
        call = ids("<tool_call>", '{"name": "f", "arguments": {}}', "</tool_call>")
        tokens = ids("<think>", "Well", "</think>") + call
        assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == 2


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_stop_string_in_the_reasoning_ends_the_count(at_once: int) -> None:
    choice = choice_of("so")

    async def run() -> None:
        for place in range(0, len(THOUGHT), at_once):
            if not choice.is_stopped:
                await choice.feed(THOUGHT[place : place + at_once])

    asyncio.run(run())
    assert choice.is_stopped
    assert choice.completion_tokens == 5
    assert choice.reasoning_tokens == 5


THINKING: dict[str, Any] = {"max_tokens": 80, "chat_template_kwargs": {"enable_thinking": True}}


def usage_of(answered: Answered) -> dict[str, Any]:
    usage: dict[str, Any] = answered.events[-1]["usage"]
    return usage


def test_usage_has_the_count_in_bodies_and_streams(ask: Asking) -> None:
    body = ask(CHAT, **THINKING).body
    usage = body["usage"]
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    assert 0 < thought < usage["completion_tokens"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    assert usage_of(ask(CHAT, **THINKING, **options)) == usage
    # The tokenizer's tokens of the text, with the tag and its line.
    text = body["choices"][0]["message"]["reasoning_content"]
    encoded = ask.runner.run(ask.servable.prompts.encode(text, add_special_tokens=False))
    assert 0 <= thought - encoded.token_count <= 4


def test_each_of_several_equal_answers_counts(ask: Asking) -> None:
    one = ask(CHAT, **THINKING).body["usage"]["completion_tokens_details"]
    three = ask(CHAT, n=3, **THINKING).body["usage"]["completion_tokens_details"]
    assert three["reasoning_tokens"] == 3 * one["reasoning_tokens"]


def test_responses_report_the_count_in_their_form(ask: Asking) -> None:
    chat = ask(CHAT, **THINKING).body["usage"]["completion_tokens_details"]
    question = "What is the capital of France?"
    asked = {"input": question, "reasoning": {"effort": "high"}, "max_output_tokens": 80}
    answered = ask.runner.run(ask.answer(RESPONSES, {"model": "demo", "temperature": 0, **asked}))
    details = answered.body["usage"]["output_tokens_details"]
    assert details["reasoning_tokens"] == chat["reasoning_tokens"]


def test_there_is_no_count_without_a_reasoning_parser(ask: Asking) -> None:
    assert "completion_tokens_details" not in ask(COMPLETIONS).body["usage"]


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=40), st.integers(2, 40), st.booleans())
@example(ids("Well", "\n", "<think>"), 2, False)
def test_the_count_does_not_depend_on_how_tokens_are_grouped(
    tokens: list[int], at_once: int, scored: bool
) -> None:
    alone = counted(choice_of(turning=None), tokens, at_once=1, scored=False)
    assert counted(choice_of(), tokens, at_once=at_once, scored=scored) == alone
