"""A choice from tokens to events, with a parser for which every capital letter is a call."""

from __future__ import annotations

import asyncio
import re

from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.llm.answers.choice import ChoiceOutput, ChoiceText, RawText, StopStrings
from calculators.llm.answers.response import Verbose
from calculators.llm.detokenizer import TableText

PIECES = [bytes([each]) for each in range(128)]


class Capitals:
    """``aBc`` is content, a call of B, content; the end is a call of END."""

    def feed(self, text: str) -> list[OutputEvent]:
        return [ToolCall(each) if each.isupper() else Content(each) for each in text]

    def finish(self) -> list[OutputEvent]:
        return [ToolCall("END"), Arguments("{}")]


def output(
    *stops: str,
    parser: Capitals | None = None,
    max_calls: int | None = None,
    raw: RawText | None = None,
) -> ChoiceOutput:
    text = ChoiceText(TableText(PIECES, strips_space=False), StopStrings(stops))
    return ChoiceOutput(text, parser, max_calls=max_calls, raw=raw)


def fed(choice: ChoiceOutput, *texts: str) -> list[OutputEvent]:
    async def run() -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for text in texts:
            events += (await choice.feed(list(text.encode()))).events
        return events + list((await choice.finish()).events)

    return asyncio.run(run())


def shown(events: list[OutputEvent]) -> list[str]:
    return [event.name if isinstance(event, ToolCall) else event.text for event in events]


def test_without_a_parser_everything_is_content() -> None:
    assert fed(output(), "aB", "c") == [Content("aB"), Content("c")]


def test_every_call_has_an_id_of_its_own() -> None:
    choice = output(parser=Capitals())
    calls = [event for event in fed(choice, "aB", "C") if isinstance(event, ToolCall)]
    assert [call.name for call in calls] == ["B", "C", "END"]
    assert all(re.fullmatch("[0-9A-Za-z]{9}", call.call_id) for call in calls)
    assert len({call.call_id for call in calls}) == 3
    assert choice.calls == 3


def test_a_stop_string_ends_a_choice_and_held_text_is_sent() -> None:
    choice = output("xy", parser=Capitals())
    assert shown(fed(choice, "aBx", "yC")) == ["a", "B", "END", "{}"]
    assert choice.is_stopped
    assert choice.stop_string == "xy"


def test_no_call_begins_beyond_the_most_that_are_allowed() -> None:
    choice = output(parser=Capitals(), max_calls=1)
    assert shown(fed(choice, "aBc", "dEf", "g")) == ["a", "B", "c", "d"]
    assert choice.is_stopped
    assert choice.calls == 1


def test_a_call_at_the_end_counts_towards_the_limit() -> None:
    assert shown(fed(output(parser=Capitals(), max_calls=1), "aB")) == ["a", "B"]


def test_the_raw_text_is_recorded_in_full() -> None:
    verbose = Verbose("prompt")
    raw = RawText(TableText(PIECES, strips_space=False), verbose)
    fed(output("xy", parser=Capitals(), raw=raw), "aBx", "y")
    assert verbose.content == "aBxy"


def test_a_choice_is_plain_if_nothing_can_end_it_early() -> None:
    assert output(parser=Capitals()).is_plain
    assert not output("x").is_plain
    assert not output(parser=Capitals(), max_calls=1).is_plain
