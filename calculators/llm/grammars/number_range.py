"""Ranges of numbers, as expressions of their digits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from calculators.llm.grammars.regular_expression import (
    EMPTY,
    CharClass,
    Choice,
    Node,
    Repeat,
    Sequence,
    parse_regex,
    text_node,
)

#: Digits of a number: clients can hold no more, and some models would not stop.
_INTEGER_DIGITS: Final = 19
_FRACTION_DIGITS: Final = 17
#: Digits of a bound.
MAX_DIGITS: Final = 40

INTEGER: Final = parse_regex(rf"0|-?[1-9]\d{{0,{_INTEGER_DIGITS - 1}}}")
NUMBER: Final = parse_regex(
    rf"-?(?:0|[1-9]\d{{0,{_INTEGER_DIGITS - 1}}})(?:\.\d{{1,{_FRACTION_DIGITS}}})?"
    r"(?:[eE][+-]?\d{1,3})?"
)


class NoSuchNumber(ValueError):
    """No number lies between the bounds."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a range; ``is_open``: the value itself is excluded."""

    value: Decimal
    is_open: bool = False


def integers(low: Bound | None, high: Bound | None) -> Node:
    """Return the integers from ``low`` to ``high``; None is unbounded.

    Raises:
        NoSuchNumber: the range is empty.
    """
    first = None if low is None else _inner(low, 1)
    last = None if high is None else _inner(high, -1)
    if first is not None and last is not None and first > last:
        raise NoSuchNumber("no integer lies between the bounds")
    branches: list[Node] = []
    if last is None or last >= 0:
        branches.append(_whole(max(first or 0, 0), last))
    if first is None or first < 0:
        lowest = None if first is None else -first
        branches.append(_negative(_whole(max(1 if last is None else -last, 1), lowest)))
    return Choice(tuple(branches))


def numbers(low: Bound | None, high: Bound | None) -> Node:
    """Return the decimal numbers from ``low`` to ``high``, without exponents; None is unbounded.

    Raises:
        NoSuchNumber: the range is empty.
    """
    zero = Bound(Decimal(0))
    branches: list[Node] = []
    if high is None or high.value >= 0:
        start = low if low is not None and low.value >= 0 else zero
        branches += _decimals(start, high)
    if low is None or low.value < 0:
        # Without "-0": negative numbers are below zero.
        start = Bound(-high.value, high.is_open) if high is not None else Bound(Decimal(0), True)
        if start.value <= 0:
            start = Bound(Decimal(0), True)
        end = None if low is None else Bound(-low.value, low.is_open)
        branches += map(_negative, _decimals(start, end))
    if not branches:
        raise NoSuchNumber("no number lies between the bounds")
    return Choice(tuple(branches))


def _inner(bound: Bound, step: int) -> int:
    """The first integer inside a lower bound (step 1) or an upper one (-1)."""
    whole = int(bound.value)
    if whole != bound.value:
        return whole + step if (bound.value > 0) == (step > 0) else whole
    return whole + step if bound.is_open else whole


def _negative(node: Node) -> Node:
    return Sequence((text_node("-"), node))


def _digit(low: int, high: int) -> Node:
    return CharClass(((0x30 + low, 0x30 + high),))


def _digits(low: int, high: int) -> Node:
    return Repeat(_digit(0, 9), low, high)


_REST: Final = _digits(0, _FRACTION_DIGITS)
_ZEROS: Final = Repeat(_digit(0, 0), 0, _FRACTION_DIGITS)


def _whole(low: int, high: int | None) -> Node:
    """The integers from ``low``, which is not negative."""
    lowest = str(low)
    branches: list[Node] = []
    if high is None:
        branches.append(_same_length(lowest, "9" * len(lowest)))
        more = max(_INTEGER_DIGITS - len(lowest) - 1, 1)
        head = Sequence((_digit(1, 9), _digits(len(lowest), len(lowest))))
        branches.append(Sequence((head, _digits(0, more))))
    else:
        highest = str(high)
        for length in range(len(lowest), len(highest) + 1):
            start = lowest if length == len(lowest) else "1" + "0" * (length - 1)
            end = highest if length == len(highest) else "9" * length
            branches.append(_same_length(start, end))
    return Choice(tuple(branches))


def _same_length(low: str, high: str) -> Node:
    """The digits from ``low`` to ``high``, which have the same length."""
    if not low:
        return EMPTY
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if first == last:
        return Sequence((_digit(first, first), _same_length(low[1:], high[1:])))
    branches: list[Node] = [
        Sequence((_digit(first, first), _same_length(low[1:], "9" * rest))),
        Sequence((_digit(last, last), _same_length("0" * rest, high[1:]))),
    ]
    if first + 1 < last:
        branches.append(Sequence((_digit(first + 1, last - 1), _digits(rest, rest))))
    return Choice(tuple(branches))


def _decimals(low: Bound, high: Bound | None) -> list[Node]:
    """Alternatives for the numbers from ``low``, which is not negative; maybe none."""
    start, after = _parts(low.value)
    if high is None:
        following = Sequence((_whole(start + 1, None), _fraction(None)))
        return [following, *_with(start, _at_least(after, low.is_open))]
    end, until = _parts(high.value)
    if start > end:
        return []
    if start == end:
        return _with(start, _between(after, until, low.is_open, high.is_open))
    found = _with(start, _at_least(after, low.is_open))
    found += _with(end, _at_most(until, high.is_open))
    if start + 1 < end:
        found.append(Sequence((_whole(start + 1, end - 1), _fraction(None))))
    return found


def _parts(value: Decimal) -> tuple[int, str]:
    """The integer part, and the digits of the fraction without zeros at the end."""
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


def _with(whole: int, fraction: Node | None) -> list[Node]:
    return [] if fraction is None else [Sequence((text_node(str(whole)), fraction))]


def _fraction(digits: Node | None) -> Node:
    """A point and digits, maybe neither; any digits where none are given."""
    if digits is None:
        digits = _digits(1, _FRACTION_DIGITS)
    return Choice((EMPTY, _point(digits)))


def _point(digits: Node) -> Node:
    return Sequence((text_node("."), digits))


def _at_least(low: str, is_open: bool) -> Node | None:
    if low:
        return _point(_digits_from(low, is_open))
    if is_open:
        return _point(_digits_from("", True))
    return _fraction(None)


def _digits_from(low: str, is_open: bool) -> Node:
    """Digits of a fraction that is not below ``low``."""
    if not low:
        if not is_open:
            return _REST
        return Sequence((_ZEROS, _digit(1, 9), _REST))
    first = int(low[0])
    branches: list[Node] = [
        Sequence((_digit(first, first), _digits_from(low[1:].rstrip("0"), is_open)))
    ]
    if first < 9:
        branches.append(Sequence((_digit(first + 1, 9), _REST)))
    return Choice(tuple(branches))


def _at_most(high: str, is_open: bool) -> Node | None:
    if high:
        digits = _digits_to(high, is_open)
        return Choice((EMPTY, _point(digits)))
    if is_open:
        return None
    return Choice((EMPTY, _point(Repeat(_digit(0, 0), 1, _FRACTION_DIGITS))))


def _digits_to(high: str, is_open: bool) -> Node:
    """Digits, at least one, of a fraction that is not above ``high``, which is not empty."""
    first = int(high[0])
    branches: list[Node] = []
    if first > 0:
        branches.append(Sequence((_digit(0, first - 1), _REST)))
    return Choice((*branches, *_beginning_as(high, is_open)))


def _beginning_as(high: str, is_open: bool) -> list[Node]:
    """Return the digits that begin as ``high`` does and are not above it; maybe none."""
    first = int(high[0])
    rest = high[1:].rstrip("0")
    if rest:
        return [Sequence((_digit(first, first), Choice((EMPTY, _digits_to(rest, is_open)))))]
    return [] if is_open else [Sequence((_digit(first, first), _ZEROS))]


def _between(low: str, high: str, low_open: bool, high_open: bool) -> Node | None:
    """Fractions of numbers whose integer part is the same."""
    if (low.ljust(len(high), "0")) > high.ljust(len(low), "0"):
        return None
    if low == high:
        if low_open or high_open:
            return None
        return _point(Sequence((text_node(low), _ZEROS))) if low else _at_most("", False)
    branches: list[Node] = [EMPTY] if not low and not low_open else []
    branches.append(_point(_digits_between(low, high, low_open, high_open)))
    return Choice(tuple(branches))


def _digits_between(low: str, high: str, low_open: bool, high_open: bool) -> Node:
    """Digits, at least one; ``low`` is below ``high``."""
    first, last = int(low[:1] or "0"), int(high[0])
    if first == last:
        inner = _digits_between(low[1:], high[1:], low_open, high_open)
        branches = [Sequence((_digit(first, first), inner))]
        if not low[1:].rstrip("0") and not low_open:
            branches.append(Sequence((_digit(first, first),)))
        return Choice(tuple(branches))
    found: list[Node] = [
        Sequence((_digit(first, first), _digits_from(low[1:].rstrip("0"), low_open)))
    ]
    if first + 1 < last:
        found.append(Sequence((_digit(first + 1, last - 1), _REST)))
    return Choice((*found, *_beginning_as(high, high_open)))
