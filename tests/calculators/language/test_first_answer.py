"""The rule by which branches join of which one answers."""

from __future__ import annotations

from dataclasses import replace

from calculators.language import (
    Begun,
    Deltas,
    Ended,
    Failed,
    GenerationRequest,
    RequestError,
    Submitted,
    Usage,
    delta_packets,
    deltas,
    request_for,
    text_of,
)
from calculators.language.first_answer import FirstAnswer
from tests.calculators.language.nodes import in_order

REQUEST = request_for("Hello")


def failed(text: str = "down", request: GenerationRequest = REQUEST) -> Deltas:
    return Deltas((Failed(RequestError(text), request),))


def submitted(stops: list[str], name: str) -> Deltas:
    return Deltas((Submitted(lambda: stops.append(name), name),))


def test_the_first_that_begins_goes_on_and_the_others_are_stopped_and_dropped() -> None:
    first, stops, seen = FirstAnswer(3), list[str](), list[Deltas]()
    seen.append(first.feed(0, submitted(stops, "a")))
    seen.append(first.feed(1, submitted(stops, "b")))
    winner = delta_packets("Hel", "lo")
    seen.append(first.feed(1, winner[0]))
    assert stops == ["a"]
    seen.append(first.feed(0, deltas("No", stop=lambda: stops.append("a"))))
    seen.append(first.feed(2, deltas("Nei", finish=None, stop=lambda: stops.append("c"))))
    seen.append(first.feed(1, winner[1]))
    seen.append(first.feed(2, deltas("ther", begins=False)))
    assert stops == ["a", "a", "c"]
    assert text_of(seen) == "Hello"
    in_order(seen)
    assert first.on_idle() == ()


def test_one_that_begins_after_the_end_of_the_winner_is_too_late() -> None:
    first, stops = FirstAnswer(2), list[str]()
    assert text_of(first.feed(0, deltas("one"))) == "one"
    assert first.feed(1, deltas("two", stop=lambda: stops.append("two"))) == ()
    assert stops == ["two"]


def test_the_next_turn_of_a_loop_is_decided_anew() -> None:
    first = FirstAnswer(2)
    first.feed(0, deltas("call a tool", request=REQUEST))
    later = replace(REQUEST, turn=1)
    assert text_of(first.feed(1, deltas("the answer", request=later))) == "the answer"
    assert first.feed(0, deltas("late", request=REQUEST)) == ()


def test_an_input_may_answer_again() -> None:
    first = FirstAnswer(2)
    assert text_of(first.feed(1, deltas("one"))) == "one"
    assert text_of(first.feed(1, deltas("two"))) == "two"


def test_a_failure_waits_until_no_other_can_begin() -> None:
    first = FirstAnswer(2)
    assert first.feed(0, failed()) == ()
    assert text_of(first.feed(1, deltas("well"))) == "well"
    assert first.on_idle() == ()

    first = FirstAnswer(2)
    failure = failed()
    assert first.feed(0, failure) == ()
    assert first.on_idle() == failure
    assert first.on_idle() == ()


def test_when_all_have_failed_the_last_failure_goes_on_at_once() -> None:
    first = FirstAnswer(2)
    assert first.feed(1, failed("one")) == ()
    assert [
        str(each.error) for each in first.feed(0, failed("two")) if isinstance(each, Failed)
    ] == ["two"]


def test_a_failure_in_the_middle_of_the_answer_goes_on_and_one_of_a_loser_does_not() -> None:
    first = FirstAnswer(2)
    first.feed(0, deltas("Hel", finish=None))
    assert first.feed(1, failed()) == ()
    failure = failed()
    assert first.feed(0, failure) == failure


def test_a_single_input_passes_as_it_is() -> None:
    first = FirstAnswer(1)
    for packet in (failed(), deltas("a"), deltas("b"), submitted([], "x")):
        assert first.feed(0, packet) is packet


def test_usage_counts_the_losers_that_have_ended_by_then() -> None:
    first = FirstAnswer(2)
    first.feed(0, deltas("a", finish=None))
    first.feed(1, deltas("b", "c", "d"))
    [*_, end] = first.feed(0, deltas("e", begins=False))
    assert end == Ended(Usage(2, 4))  # (1, 1) of the winner, (1, 3) of the other


def test_the_items_of_one_packet_may_hold_a_whole_answer() -> None:
    first = FirstAnswer(2)
    packet = deltas("all")
    assert first.feed(1, packet) == packet
    assert isinstance(packet[0], Begun)
