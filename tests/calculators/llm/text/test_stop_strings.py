"""Stop strings end the text where they begin, across any borders of pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.answers.choice import StopStrings


def run(stops: StopStrings, pieces: Sequence[str]) -> str:
    shown = "".join(map(stops.feed, pieces))
    return shown if stops.matched is not None else shown + stops.finish()


@pytest.mark.parametrize("pieces", [["one STOP two"], ["one S", "TOP two"], list("one STOP two")])
def test_the_text_ends_before_a_stop_string(pieces: list[str]) -> None:
    stops = StopStrings(["STOP"])
    assert run(stops, pieces) == "one "
    assert stops.matched is not None


@pytest.mark.parametrize("pieces", [["one STOP two"], ["one S", "TOP two"], list("one STOP two")])
def test_the_stop_string_may_be_included(pieces: list[str]) -> None:
    stops = StopStrings(["STOP"], include=True)
    assert run(stops, pieces) == "one STOP"


def test_only_a_possible_beginning_of_a_stop_string_is_held_back() -> None:
    stops = StopStrings(["\n\nUser", "###"])
    assert stops.feed("Hi #") == "Hi "
    assert stops.feed("#1 \n") == "##1 "
    assert stops.feed("\n\n") == "\n"
    assert stops.feed("Us") == ""
    assert stops.feed("e") == ""
    assert stops.matched is None
    assert stops.finish() == "\n\nUse"
    assert stops.finish() == ""


def test_nothing_follows_a_stop_string() -> None:
    stops = StopStrings(["x"])
    assert stops.feed("axb") == "a"
    assert stops.feed("more") == ""
    assert stops.finish() == ""


@pytest.mark.parametrize(
    ("strings", "text", "shown"),
    [
        (["world", "hello"], "hello world", ""),
        (["bc", "abcd"], "abcd", "a"),
        (["ab", "abc"], "abc", ""),
        (["b", "ab"], "ab", ""),
        (["aab"], "aaab", "a"),
        (["", "x"], "ax", "a"),
    ],
)
def test_the_string_that_is_complete_first_ends_the_text(
    strings: list[str], text: str, shown: str
) -> None:
    assert run(StopStrings(strings), [text]) == shown
    assert run(StopStrings(strings), list(text)) == shown


texts = st.text("ab\n", max_size=12)


@given(
    st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    st.lists(texts, max_size=5),
    st.booleans(),
)
def test_the_result_does_not_depend_on_the_pieces(
    strings: list[str], pieces: list[str], include: bool
) -> None:
    whole = run(StopStrings(strings, include=include), ["".join(pieces)])
    assert run(StopStrings(strings, include=include), pieces) == whole
    assert run(StopStrings(strings, include=include), list("".join(pieces))) == whole
    assert "".join(pieces).startswith(whole)
    if not include:
        assert not any(stop in whole for stop in strings)
