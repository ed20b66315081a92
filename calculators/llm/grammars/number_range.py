"""Numbers between bounds, as automata of their digits.

A state knows how the digits so far compare with those of each bound, so the number of states is
that of the bounds' digits. With ``multipleOf`` it also knows the remainder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import gcd, lcm
from typing import Final, NamedTuple

from calculators.llm.grammars.automaton import Automaton, NoTextError, TooComplex, explored
from calculators.llm.grammars.regular_expression import Ranges, parse_regex

#: Digits of a number: clients can hold no more, and some models would not stop.
INTEGER_DIGITS: Final = 19
FRACTION_DIGITS: Final = 15
#: The most digits of a bound, before and after its point: enough for any double.
MAX_DIGITS: Final = 350
#: The most remainders that states know, with the digits of bounds, and the largest step.
MAX_REMAINDER: Final = 1_000
_MAX_STEP: Final = 1_000_000
_MOST_COUNTED: Final = 40

_BOUND_DECIMALS: Final = 20
_EXACT: Final = Context(prec=2 * MAX_DIGITS)

INTEGER: Final = parse_regex(rf"0|-?[1-9]\d{{0,{INTEGER_DIGITS - 1}}}")
NUMBER: Final = parse_regex(
    rf"-?(?:0|[1-9]\d{{0,{INTEGER_DIGITS - 1}}})(?:\.\d{{1,{FRACTION_DIGITS}}})?"
    r"(?:[eE][+-]?\d{1,2})?"
)


class NoSuchNumber(ValueError):
    """No number lies between the bounds."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a range; ``is_open``: the value itself is excluded."""

    value: Decimal
    is_open: bool = False

    def _replaced(self, value: Decimal) -> Bound:
        return self if value == self.value else Bound(value)


def _shortened(value: Decimal, step: int) -> Decimal:
    """Return a number of few decimals that is not below (step 1) or above (-1) a value."""
    if -int(value.as_tuple().exponent) <= _BOUND_DECIMALS:
        return value
    rounding = ROUND_CEILING if step > 0 else ROUND_FLOOR
    return value.quantize(Decimal(1).scaleb(-_BOUND_DECIMALS), rounding, _EXACT)


def _beyond(other: Bound | None, sign: int) -> Decimal:
    """Return a magnitude that no number of this sign has, beside the bound at the other end."""
    digits = INTEGER_DIGITS
    # One that no number reaches is none.
    if other is not None and other.value * sign > -(Decimal(10) ** INTEGER_DIGITS):
        digits = max(digits, other.value.adjusted() + 2)
    return Decimal(10) ** digits


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers that some keywords leave, without exponents.

    Attributes:
        low, high: None is unbounded.
        is_whole: only integers, written without a fraction.
        is_fraction: only numbers that are not integers.
        step: numbers are multiples of it; None: of anything.
        off_steps: numbers are multiples of none of them.
    """

    low: Bound | None = None
    high: Bound | None = None
    is_whole: bool = False
    is_fraction: bool = False
    step: Decimal | None = None
    off_steps: tuple[Decimal, ...] = ()

    def without(self, values: Sequence[Decimal]) -> Iterator[NumberRange]:
        """Yield the ranges that are left between some values, which ascend."""
        low = self.low
        for value in values:
            if (low is None or value >= low.value) and (
                self.high is None or value <= self.high.value
            ):
                yield replace(self, low=low, high=Bound(value, True))
                low = Bound(value, True)
        yield replace(self, low=low)

    def automaton(self) -> Automaton:
        """Return the automaton of the numbers.

        Raises:
            TooComplex: it would have too many states.
            NoSuchNumber: there are none.
        """
        machine = _Machine(self._bounded())
        try:
            if machine.signs:
                return explored(_START, machine.moves, machine.is_final)
        except NoTextError:
            pass
        kind = "integer" if self.is_whole else "number"
        raise NoSuchNumber(f"no {kind} lies between the bounds")

    def _bounded(self) -> NumberRange:
        """Leave out bounds that no number of our length exceeds, and digits that none has."""
        low, high = self.low, self.high
        if self.low is not None:
            low = self.low._replaced(_shortened(self.low.value, 1))
            low = None if low.value <= -_beyond(self.high, -1) else low
        if self.high is not None:
            high = self.high._replaced(_shortened(self.high.value, -1))
            high = None if high.value >= _beyond(self.low, 1) else high
        if low is not None and high is not None and low.value > high.value:
            return self
        return replace(self, low=low, high=high)


class _DigitState(NamedTuple):
    """A place in a number.

    Attributes:
        sign: 1 or -1; 0 at the start.
        digits: those read before the point; None before the first, -1 for a zero.
        decimals: the digits read after the point; None before it.
        low, high: the digits so far beside those of the magnitude's bounds: -1 is less, 1 more.
        rest: the remainder of the number so far, counted in units of its last digit.
        has_fraction: there is a digit after the point that is not zero.
    """

    sign: int
    digits: int | None = None
    decimals: int | None = None
    low: int = 0
    high: int = 0
    rest: int = 0
    has_fraction: bool = False


_START: Final = _DigitState(0)


class _Ends(NamedTuple):
    """The bounds of the magnitude for one sign, as digits."""

    low: tuple[str, str] | None
    low_is_open: bool
    high: tuple[str, str] | None
    high_is_open: bool


def _parts(value: Decimal) -> tuple[str, str]:
    whole, _, fraction = f"{value:f}".partition(".")
    return whole.lstrip("0") or "0", fraction.rstrip("0")


class _Machine:
    """The transitions of a range's automaton."""

    def __init__(self, numbers: NumberRange) -> None:
        self._numbers = numbers
        self.signs: dict[int, _Ends] = {}
        low, high = numbers.low, numbers.high
        zero = Decimal(0)
        if high is None or high.value > zero or (high.value == zero and not high.is_open):
            least = low if low is not None and low.value > zero else None
            if low is not None and low.value == zero and low.is_open:
                least = low
            self.signs[1] = _ends(least, high)
        if low is None or low.value < zero:
            # "-0" is not written: negative numbers are below zero.
            top = Bound(zero, True)
            if high is not None and high.value < zero:
                top = Bound(-high.value, high.is_open)
            self.signs[-1] = _ends(top, None if low is None else Bound(-low.value, low.is_open))
        ends = self.signs.values()
        digits = [len(each[0]) for end in ends for each in (end.low, end.high) if each is not None]
        decimals = [
            len(each[1]) for end in ends for each in (end.low, end.high) if each is not None
        ]
        if max(digits, default=0) > MAX_DIGITS or max(decimals, default=0) > MAX_DIGITS:
            raise TooComplex("the number has too many digits")
        self._longest = max(digits, default=0)
        #: A number may be one digit longer than its bounds, so that it need not be one of them.
        self._digits = max(INTEGER_DIGITS, *(length + 1 for length in digits), 0)
        self._decimals = max(FRACTION_DIGITS, *(length + 1 for length in decimals), 0)
        if numbers.is_whole:
            self._decimals = 0
        #: Digits that are counted. Where states have much to remember, any number may follow.
        self._counted = self._digits + 1
        self._unit = 1
        self._units = [1]
        self._far = 0
        #: A remainder for all with which the same digits may follow.
        self._equal_rests: dict[tuple[int, ...], int] = {}
        self._steps = [*numbers.off_steps, *(() if numbers.step is None else (numbers.step,))]
        if self._steps:
            self._set_steps()

    def _set_steps(self) -> None:
        decimals = max(0, *(-int(step.normalize().as_tuple().exponent) for step in self._steps))
        if decimals > MAX_DIGITS:
            raise TooComplex("the multiples have too many digits")
        self._units = [int(step.scaleb(decimals)) for step in self._steps]
        self._unit = lcm(*self._units)
        self._far = len(str(self._unit))
        remembered = self._unit // gcd(self._unit, 10**self._far)
        if remembered > MAX_REMAINDER or not 0 < self._unit <= _MAX_STEP:
            raise TooComplex("the multiples have to remember too much")
        if self._unit > _MOST_COUNTED:
            self._counted = self._longest + 1
        self._step_decimals = decimals
        if self._numbers.step is not None and not self._numbers.is_whole:
            self._decimals = decimals

    # A state's remainder is that of its digits; a final state scales it by those that are left.

    def moves(self, state: _DigitState) -> Iterator[tuple[Ranges, _DigitState]]:
        if state.sign == 0:
            if -1 in self.signs:
                yield ((0x2D, 0x2D),), _DigitState(-1)
            if 1 in self.signs:
                yield from self._digit_moves(_DigitState(1))
            return
        if state.decimals is None:
            yield from self._digit_moves(state)
            if state.digits is not None and self._decimals and self._may_have_point(state):
                yield ((0x2E, 0x2E),), self._after_point(state)
            return
        if state.decimals < self._decimals:
            yield from self._decimal_moves(state)

    def _digit_moves(self, state: _DigitState) -> Iterator[tuple[Ranges, _DigitState]]:
        read = state.digits or 0
        if state.digits == -1 or self._digits <= read < self._counted:
            return
        ends = self.signs[state.sign]
        goals: dict[_DigitState, list[int]] = {}
        for digit in range(10):
            low = _compared(state.low, ends.low and ends.low[0], read, digit)
            high = _compared(state.high, ends.high and ends.high[0], read, digit)
            if read + 1 > len(ends.high[0] if ends.high else "") and ends.high is not None:
                continue  # longer than the upper bound
            if read == 0 and digit == 0:
                # A zero is the only digit before the point.
                goal = _DigitState(state.sign, -1, None, low, high, 0)
            else:
                rest = self._rest(state.rest * 10 + digit)
                goal = _DigitState(state.sign, min(read + 1, self._counted), None, low, high, rest)
            goals.setdefault(goal, []).append(digit)
        yield from _grouped(goals)

    def _rest(self, number: int) -> int:
        """Return a remainder with which the same digits may follow as with that of a number.

        Of the factors 2 and 5 of a step only the last digits tell something, so multiples of 1000
        need few states.
        """
        rest = number % self._unit
        ends = []
        for unit in self._units:
            for digits in range(self._far + 1):
                needed = -rest * 10**digits % unit
                ends.append(needed if digits == self._far or needed < 10**digits else -1)
        return self._equal_rests.setdefault(tuple(ends), rest)

    def _lengths(self, state: _DigitState) -> tuple[int, int]:
        """Compare the whole part with the bounds': its length first, then its digits."""
        ends = self.signs[state.sign]
        read = 1 if state.digits == -1 else state.digits or 0
        low = high = 0
        if ends.low is not None:
            length = len(ends.low[0])
            low = state.low if read == length else (1 if read > length else -1)
        else:
            low = 1
        if ends.high is not None:
            length = len(ends.high[0])
            high = state.high if read == length else (1 if read > length else -1)
        else:
            high = -1
        return low, high

    def _may_have_point(self, state: _DigitState) -> bool:
        low, high = self._lengths(state)
        return low >= 0 and high <= 0

    def _after_point(self, state: _DigitState) -> _DigitState:
        low, high = self._lengths(state)
        return _DigitState(state.sign, 0, 0, low, high, state.rest)

    def _decimal_moves(self, state: _DigitState) -> Iterator[tuple[Ranges, _DigitState]]:
        ends = self.signs[state.sign]
        read = state.decimals or 0
        goals: dict[_DigitState, list[int]] = {}
        for digit in range(10):
            low, high = state.low, state.high
            if low == 0:
                low = _compared(0, ends.low and ends.low[1], read, digit, fill=True)
            if high == 0:
                high = _compared(0, ends.high and ends.high[1], read, digit, fill=True)
            if low < 0 or high > 0:
                continue
            rest = state.rest
            if self._steps and rest >= 0:
                if read < self._step_decimals:
                    rest = self._rest(rest * 10 + digit)
                elif digit:
                    rest = -1  # after the digits of every multiple
            fraction = state.has_fraction or digit > 0
            goal = _DigitState(state.sign, 0, read + 1, low, high, rest, fraction)
            goals.setdefault(goal, []).append(digit)
        yield from _grouped(goals)

    def is_final(self, state: _DigitState) -> bool:
        if state.sign == 0 or state.digits is None or state.decimals == 0:
            return False
        ends = self.signs[state.sign]
        read = state.decimals or 0
        low, high = self._lengths(state) if state.decimals is None else (state.low, state.high)
        if low == 0 and ends.low is not None:
            # The digits so far equal the bound's; the bound may have more, or be this number.
            further = ends.low[1][read:]
            low = -1 if further else 0
        if high == 0 and ends.high is not None:
            high = -1 if ends.high[1][read:] else 0
        if low < 0 or (low == 0 and ends.low is not None and ends.low_is_open):
            return False
        if high > 0 or (high == 0 and ends.high is not None and ends.high_is_open):
            return False
        if self._numbers.is_fraction and not state.has_fraction:
            return False
        return not self._steps or self._is_on_steps(state)

    def _is_on_steps(self, state: _DigitState) -> bool:
        if state.rest < 0:
            return self._numbers.step is None
        left = max(0, self._step_decimals - (state.decimals or 0))
        number = state.rest * pow(10, left, self._unit)
        count = len(self._numbers.off_steps)
        return all(number % unit for unit in self._units[:count]) and not any(
            number % unit for unit in self._units[count:]
        )


def _ends(low: Bound | None, high: Bound | None) -> _Ends:
    return _Ends(
        None if low is None else _parts(low.value),
        low is not None and low.is_open,
        None if high is None else _parts(high.value),
        high is not None and high.is_open,
    )


def _compared(so_far: int, bound: str | None, read: int, digit: int, *, fill: bool = False) -> int:
    """Compare digits with as many of a bound's; after its end the digits of a fraction are 0."""
    if bound is None or so_far:
        return so_far
    if read >= len(bound):
        return int(digit > 0) if fill else so_far
    own = int(bound[read])
    return (digit > own) - (digit < own)


def _grouped(goals: dict[_DigitState, list[int]]) -> Iterator[tuple[Ranges, _DigitState]]:
    for goal, digits in goals.items():
        ranges: list[tuple[int, int]] = []
        for digit in digits:
            code = 0x30 + digit
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
        yield tuple(ranges), goal
