"""A choice from tokens to events, with a parser for which every capital letter is a call."""

from __future__ import annotations

import asyncio
import re

import pytest

from calculators.language.delta import FinishReason
from calculators.language.events import Arguments, CallDone, Content, OutputEvent, ToolCall
from calculators.llm.answers.choice import Choice, StopStrings
from calculators.llm.detokenizer import Detokenizer, TableDetokenizer
from calculators.llm.engine.messages import FinishReason as EngineReason
from calculators.llm.engine.messages import NewTokens
from calculators.llm.parsers.output_parsers import AnswerParser

PIECES = [bytes([each]) for each in range(128)]


class Capitals:
    """``aBc`` is content, a call of B, content; the end is a call of END."""

    is_thinking = False

    def feed(self, text: str) -> list[OutputEvent]:
        return [ToolCall(each) if each.isupper() else Content(each) for each in text]

    def finish(self) -> list[OutputEvent]:
        return [ToolCall("END"), Arguments("{}")]


def choice_of(
    *stops: str,
    parser: AnswerParser | None = None,
    max_calls: int | None = None,
    raw: Detokenizer | None = None,
) -> Choice:
    stream = TableDetokenizer(PIECES, strips_space=False)
    return Choice(stream, StopStrings(stops), parser, max_calls=max_calls, raw=raw)


def fed(choice: Choice, *texts: str) -> list[OutputEvent]:
    async def run() -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for text in texts:
            events += (await choice.feed(list(text.encode()))).events
        return events + list((await choice.finish()).events)

    return asyncio.run(run())


def shown(events: list[OutputEvent]) -> list[str]:
    return [event.name if isinstance(event, ToolCall) else event.text for event in events]


def test_without_a_parser_everything_is_content() -> None:
    assert fed(choice_of(), "aB", "c") == [Content("aB"), Content("c")]


def test_every_call_has_an_id_of_its_own() -> None:
    choice = choice_of(parser=Capitals())
    calls = [event for event in fed(choice, "aB", "C") if isinstance(event, ToolCall)]
    assert [call.name for call in calls] == ["B", "C", "END"]
    assert all(re.fullmatch("[0-9A-Za-z]{9}", call.call_id) for call in calls)
    assert len({call.call_id for call in calls}) == 3
    assert choice.calls == 3


def test_a_stop_string_ends_a_choice_and_held_text_is_sent() -> None:
    choice = choice_of("xy", parser=Capitals())
    assert shown(fed(choice, "aBx", "yC")) == ["a", "B", "END", "{}"]
    assert choice.is_stopped
    assert choice.stop_string == "xy"


def test_no_call_begins_beyond_the_most_that_are_allowed() -> None:
    choice = choice_of(parser=Capitals(), max_calls=1)
    assert shown(fed(choice, "aBc", "dEf", "g")) == ["a", "B", "c", "d"]
    assert choice.is_stopped
    assert choice.calls == 1


def test_a_call_at_the_end_counts_towards_the_limit() -> None:
    assert shown(fed(choice_of(parser=Capitals(), max_calls=1), "aB")) == ["a", "B"]


def test_the_raw_text_is_recorded_in_full() -> None:
    choice = choice_of("xy", parser=Capitals(), raw=TableDetokenizer(PIECES, strips_space=False))
    fed(choice, "aBx", "y")
    assert choice.raw_text == "aBxy"


def test_a_choice_is_plain_if_nothing_can_end_it_early() -> None:
    assert choice_of(parser=Capitals()).is_plain
    assert not choice_of("x").is_plain
    assert not choice_of(parser=Capitals(), max_calls=1).is_plain


class Curly:
    """``f{...}`` is a call of f whose arguments are in braces; anything else is content."""

    is_thinking = False

    def __init__(self) -> None:
        self._is_open = False

    def feed(self, text: str) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for each in text:
            if each == "f":
                self._is_open = True
                events.append(ToolCall("f"))
            else:
                events.append(Arguments(each) if self._is_open else Content(each))
            if each == "}":
                self._is_open = False
        return events

    def finish(self) -> list[OutputEvent]:
        return []


def taken(
    choice: Choice, *texts: str, ended: EngineReason = "stop"
) -> tuple[list[object], FinishReason | None]:
    """Let the engine give these texts, the last with the reason; return what clients are shown."""

    async def run() -> list[object]:
        events: list[object] = []
        for number, text in enumerate(texts, 1):
            reason = ended if number == len(texts) else None
            tokens = NewTokens(0, 0, list(text.encode()), finish_reason=reason)
            gain = await choice.take(tokens, scored=False)
            events += choice.with_call_ends(gain.events)
            if choice.finish_reason is not None:
                break
        return events

    return asyncio.run(run()), choice.finish_reason


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("cache", FinishReason.LENGTH),
        ("cancelled", FinishReason.STOP),
    ],
)
def test_a_choice_ends_as_the_engine_says(ended: EngineReason, reason: FinishReason) -> None:
    assert taken(choice_of(), "ab", "c", ended=ended) == ([Content("ab"), Content("c")], reason)


def test_a_stop_string_ends_a_choice_before_the_engine() -> None:
    choice = choice_of("bc")
    assert taken(choice, "ab", "cd", "e") == ([Content("a")], FinishReason.STOP)
    assert choice.completion_tokens == 3


def test_a_call_ends_before_what_follows_and_with_its_choice() -> None:
    events, reason = taken(choice_of(parser=Curly()), "f{", "} ", "f{}x", "f{")
    assert [each for each in events if isinstance(each, CallDone)] == [
        *(CallDone("{}", is_complete) for is_complete in (True, True)),
        CallDone("{", False),
    ]
    assert reason is FinishReason.TOOL_CALLS
    assert [type(each).__name__ for each in events].index("CallDone") == 4


def test_a_stop_string_within_a_call_does_not_make_it() -> None:
    events, reason = taken(choice_of("!", parser=Curly()), "f{", "1!", "}")
    assert events[-1] == CallDone("{1", False)
    assert reason is FinishReason.STOP


def test_a_stop_string_after_a_call_makes_it() -> None:
    assert taken(choice_of("!", parser=Curly()), "f{}", "!")[1] is FinishReason.TOOL_CALLS


def test_a_call_that_the_engine_cuts_has_its_reason() -> None:
    choice = choice_of(parser=Curly())
    assert taken(choice, "f{", "1", ended="length")[1] is FinishReason.LENGTH
