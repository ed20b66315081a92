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
    NumberRange,
)

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
    for is_integer in (False, True):
        try:
            automaton = NumberRange(low, high, is_integer).automaton()
        except NoSuchNumber:
            automaton = None
        for candidate in candidates:
            expected = is_between(candidate, low, high)
            if is_integer:
                expected = expected and candidate == int(candidate)
            text = f"{candidate:f}"
            if text == "-0":
                text = "0"
            assert (automaton is not None and automaton.accepts(text)) is expected


@pytest.mark.parametrize("text", ["0", "-1", "12", "9" * 19])
def test_an_unbounded_range_of_integers_matches_any(text: str) -> None:
    assert make_automaton(INTEGER).accepts(text)
    assert make_automaton(NUMBER).accepts(text)


@pytest.mark.parametrize("text", ["0.5", "-1e9", "12.25E-3"])
def test_an_unbounded_range_of_numbers_matches_any(text: str) -> None:
    assert not make_automaton(INTEGER).accepts(text)
    assert make_automaton(NUMBER).accepts(text)


@pytest.mark.parametrize("text", ["", "-", "01", "+1", ".5", "1.", "1e", "-0", "NaN"])
def test_texts_that_are_not_json_numbers_do_not_match(text: str) -> None:
    assert not make_automaton(INTEGER).accepts(text)
    if text != "-0":
        assert not make_automaton(NUMBER).accepts(text)


@pytest.mark.parametrize(
    ("numbers", "yes", "no"),
    [
        (NumberRange(step=Decimal("0.01")), ["0", "0.07", "-1.5", "12"], ["0.001", "1.005"]),
        (NumberRange(step=Decimal(3), is_whole=True), ["0", "9", "-12"], ["1", "10", "3.0"]),
        (NumberRange(step=Decimal("2.5")), ["5", "7.5", "-2.5", "0"], ["1", "2.4", "6"]),
        (NumberRange(step=Decimal(100), is_whole=True), ["0", "100", "12300"], ["10", "150"]),
        (NumberRange(off_steps=(Decimal(2),), is_whole=True), ["1", "-3"], ["0", "2", "10"]),
        (NumberRange(step=Decimal(3), off_steps=(Decimal(5),)), ["3", "9"], ["15", "5", "4"]),
        (NumberRange(is_fraction=True), ["0.5", "-3.25"], ["1", "1.0", "-2.00"]),
    ],
)
def test_multiples_and_fractions(numbers: NumberRange, yes: list[str], no: list[str]) -> None:
    automaton = numbers.automaton()
    assert all(map(automaton.accepts, yes))
    assert not any(map(automaton.accepts, no))


@pytest.mark.parametrize("high", ["2147483647", "9007199254740991", "1E+308", "5E-324"])
def test_the_size_of_a_range_is_that_of_its_digits(high: str) -> None:
    value = Decimal(high)
    automaton = NumberRange(Bound(-value), Bound(value)).automaton()
    assert len(automaton.moves) < 700
    assert automaton.accepts("0")
    if 1 <= value < 10**18:
        assert automaton.accepts(f"{value:f}")
        assert not automaton.accepts(f"{value + 1:f}")


def test_bounds_that_no_number_reaches_are_none() -> None:
    bounded = NumberRange(Bound(Decimal("-1e308")), Bound(Decimal("1e308")), is_whole=True)
    assert bounded.automaton() == NumberRange(is_whole=True).automaton()
    # Numbers above a bound have as many digits as it takes.
    assert NumberRange(Bound(Decimal("1e30")), None, True).automaton().accepts("1" + "0" * 30)


@pytest.mark.parametrize(
    ("low", "high"), [("1e18", "1e19"), ("-1e19", "-1e18"), ("1e20", "1e21"), ("-5e18", "1e19")]
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_bounds_beyond_the_usual_digits_hold(low: str, high: str, is_whole: bool) -> None:
    first, last = Decimal(low), Decimal(high)
    automaton = NumberRange(Bound(first), Bound(last), is_whole).automaton()
    for each in (first, last, (first + last) / 2):
        assert automaton.accepts(f"{each:f}")
    for each in (first - 1, last + 1, last * 3, first * 3, last * 10 + 7, first * 10 - 7):
        if not first <= each <= last:
            assert not automaton.accepts(f"{each:f}"), each
