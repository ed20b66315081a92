"""Number ranges: exactly the numbers between the bounds."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.grammars.automaton import make_automaton
from calculators.llm.grammars.number_range import (
    INTEGER,
    NUMBER,
    Bound,
    NoSuchNumber,
    integers,
    numbers,
)
from tests.calculators.llm.grammars.automata import accepts

VALUES = st.decimals(min_value=-1200, max_value=1200, places=2).map(lambda value: value.normalize())
BOUNDS = st.none() | st.builds(Bound, VALUES, st.booleans())


def is_between(value: Decimal, low: Bound | None, high: Bound | None) -> bool:
    above = low is None or value > low.value or (value == low.value and not low.is_open)
    below = high is None or value < high.value or (value == high.value and not high.is_open)
    return above and below


@given(BOUNDS, BOUNDS, VALUES)
def test_exactly_the_numbers_of_a_range_match(
    low: Bound | None, high: Bound | None, value: Decimal
) -> None:
    candidates = {value, *(bound.value for bound in (low, high) if bound is not None)}
    for kind, is_integer in ((numbers, False), (integers, True)):
        try:
            automaton = make_automaton(kind(low, high))
        except NoSuchNumber:
            automaton = None
        for candidate in candidates:
            expected = is_between(candidate, low, high)
            if is_integer:
                expected = expected and candidate == int(candidate)
            text = f"{candidate:f}"
            if text == "-0":
                text = "0"
            assert (automaton is not None and accepts(automaton, text)) is expected


@pytest.mark.parametrize("text", ["0", "-1", "12", "9" * 19])
def test_an_unbounded_range_of_integers_matches_any(text: str) -> None:
    assert accepts(make_automaton(INTEGER), text)
    assert accepts(make_automaton(NUMBER), text)


@pytest.mark.parametrize("text", ["0.5", "-1e9", "12.25E-3"])
def test_an_unbounded_range_of_numbers_matches_any(text: str) -> None:
    assert not accepts(make_automaton(INTEGER), text)
    assert accepts(make_automaton(NUMBER), text)


@pytest.mark.parametrize("text", ["", "-", "01", "+1", ".5", "1.", "1e", "-0", "NaN"])
def test_texts_that_are_not_json_numbers_do_not_match(text: str) -> None:
    assert not accepts(make_automaton(INTEGER), text)
    if text != "-0":
        assert not accepts(make_automaton(NUMBER), text)
