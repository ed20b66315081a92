"""Timestamps: 64-bit microseconds with special values at both ends.

In order (MediaPipe ``framework/timestamp.h``)::

    UNSET                 min       a packet that is in no stream (side packets)
    UNSTARTED             min + 1   the input timestamp in ``open``
    PRESTREAM             min + 2   a header-like packet; must be the only one of its stream
    MIN                   min + 3   first ordinary value
      ...
    MAX                   max - 3   last ordinary value
    POSTSTREAM            max - 2   a summary packet; must be the only one of its stream
    ONE_OVER_POSTSTREAM   max - 1   a bound: nothing can come any more
    DONE                  max       a bound: the stream is closed; the input timestamp in ``close``

The engine calculates with plain ``int`` (the constants in capitals below); `Timestamp` is the
``int`` subclass that applications and calculators see.
"""

from __future__ import annotations

import math
import operator
import reprlib
from typing import ClassVar, Final, SupportsIndex, final

UNSET: Final = -(2**63)
UNSTARTED: Final = UNSET + 1
PRESTREAM: Final = UNSET + 2
MIN: Final = UNSET + 3
DONE: Final = 2**63 - 1
ONE_OVER_POSTSTREAM: Final = DONE - 1
POSTSTREAM: Final = DONE - 2
MAX: Final = DONE - 3

SPECIAL_NAMES: dict[int, str] = {
    UNSET: "UNSET",
    UNSTARTED: "UNSTARTED",
    PRESTREAM: "PRESTREAM",
    MIN: "MIN",
    MAX: "MAX",
    POSTSTREAM: "POSTSTREAM",
    ONE_OVER_POSTSTREAM: "ONE_OVER_POSTSTREAM",
    DONE: "DONE",
}

_DEBUG_NAMES: dict[int, str] = {
    UNSET: "Timestamp::Unset()",
    UNSTARTED: "Timestamp::Unstarted()",
    PRESTREAM: "Timestamp::PreStream()",
    MIN: "Timestamp::Min()",
    MAX: "Timestamp::Max()",
    POSTSTREAM: "Timestamp::PostStream()",
    ONE_OVER_POSTSTREAM: "Timestamp::OneOverPostStream()",
    DONE: "Timestamp::Done()",
}


def is_allowed_in_stream(value: int) -> bool:
    """Return True for values that a packet in a stream may carry."""
    return PRESTREAM <= value <= POSTSTREAM


def is_range_value(value: int) -> bool:
    """Return True for ordinary values, MIN and MAX included."""
    return MIN <= value <= MAX


def next_allowed_in_stream(value: int) -> int:
    """Return the smallest timestamp that a packet after one at ``value`` could have."""
    if MIN <= value < MAX:
        return value + 1
    if value >= MAX or value == PRESTREAM:
        return ONE_OVER_POSTSTREAM
    return MIN


def previous_allowed_in_stream(value: int) -> int:
    """Return the largest timestamp that a packet before a bound of ``value`` could have."""
    if MIN < value <= MAX:
        return value - 1
    if value <= MIN or value == POSTSTREAM:
        return UNSTARTED
    return MAX


def clamp(value: int) -> int:
    """Saturate ``value`` to [MIN, MAX], as adding an offset does."""
    return MIN if value < MIN else MAX if value > MAX else value


def debug_string(value: int) -> str:
    """Return the value as error messages print it, such as ``Timestamp::Max()`` for MAX."""
    return _DEBUG_NAMES.get(value) or str(int(value))


def as_value(timestamp: SupportsIndex) -> int:
    """A plain ``int`` from what an application passes as timestamp.

    Raises:
        ValueError: an ``int`` outside the ordinary values; the special ones have names.
        TypeError: not an integer.
    """
    if type(timestamp) is Timestamp:
        return int(timestamp)
    try:
        value = operator.index(timestamp)
    except TypeError:
        raise TypeError(
            f"a timestamp must be an integer of microseconds, not {reprlib.repr(timestamp)}; "
            "Timestamp.from_seconds makes one from seconds"
        ) from None
    if not MIN < value < MAX:
        raise ValueError(
            f"{value} is not an ordinary timestamp: it must lie strictly between Timestamp.MIN and "
            f"Timestamp.MAX; write the special values by name, such as Timestamp.PRESTREAM"
        )
    return value


@final
class Timestamp(int):
    """Microseconds as ``int``, or one of the special values.

    ``Timestamp(5) + 3 == 8``; adding and subtracting an offset saturates at MIN and MAX;
    the difference of two timestamps is a plain ``int``.

    Raises:
        ValueError: for special values given as numbers, MIN and MAX included.
    """

    __slots__ = ()

    UNSET: ClassVar[Timestamp]
    UNSTARTED: ClassVar[Timestamp]
    PRESTREAM: ClassVar[Timestamp]
    MIN: ClassVar[Timestamp]
    MAX: ClassVar[Timestamp]
    POSTSTREAM: ClassVar[Timestamp]
    ONE_OVER_POSTSTREAM: ClassVar[Timestamp]
    DONE: ClassVar[Timestamp]

    def __new__(cls, value: SupportsIndex) -> Timestamp:
        return int.__new__(cls, as_value(value))

    @staticmethod
    def of(value: int) -> Timestamp:
        """Return the timestamp of a raw 64-bit value, special ones included."""
        return int.__new__(Timestamp, value)

    @classmethod
    def from_seconds(cls, seconds: float) -> Timestamp:
        """Return the timestamp of a time in seconds, rounded to the nearest microsecond.

        Halves are rounded away from zero, as in MediaPipe.

        Raises:
            ValueError: not a number, or out of range.
        """
        try:
            microseconds = float(seconds + 0) * 1e6
        except TypeError:
            raise TypeError(
                f"Timestamp.from_seconds: seconds must be a number, not {reprlib.repr(seconds)}"
            ) from None
        if not math.isfinite(microseconds):
            raise ValueError(f"a timestamp of {seconds} seconds is out of range")
        whole = math.trunc(microseconds)
        if abs(microseconds - whole) >= 0.5:
            whole += 1 if microseconds > 0 else -1
        return cls(whole)

    @property
    def value(self) -> int:
        """The raw 64-bit value."""
        return int(self)

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return int(self) / 1e6

    @property
    def microseconds(self) -> int:
        """The time in microseconds, as plain ``int``."""
        return int(self)

    def is_special_value(self) -> bool:
        """Return True for the values outside of MIN to MAX, and for MIN and MAX themselves."""
        return not MIN < self < MAX

    def is_range_value(self) -> bool:
        """Return True for ordinary values, MIN and MAX included."""
        return is_range_value(self)

    def is_allowed_in_stream(self) -> bool:
        """Return True for values that a packet in a stream may have."""
        return is_allowed_in_stream(self)

    def next_allowed_in_stream(self) -> Timestamp:
        """Return the smallest timestamp that a packet after this one could have."""
        return Timestamp.of(next_allowed_in_stream(int(self)))

    def previous_allowed_in_stream(self) -> Timestamp:
        """Return the largest timestamp that a packet before this bound could have."""
        return Timestamp.of(previous_allowed_in_stream(int(self)))

    def __add__(self, offset: int) -> Timestamp:
        return Timestamp.of(clamp(int.__add__(self, offset)))

    __radd__ = __add__

    def __sub__(self, other: int) -> Timestamp | int:
        if isinstance(other, Timestamp):
            return int.__sub__(self, other)
        return Timestamp.of(clamp(int.__sub__(self, other)))

    def __repr__(self) -> str:
        name = SPECIAL_NAMES.get(int(self))
        return f"Timestamp.{name}" if name else f"Timestamp({int(self)})"

    def __str__(self) -> str:
        return debug_string(int(self))

    def __reduce__(self) -> tuple[object, ...]:
        return (Timestamp.of, (int(self),))


for _value, _name in SPECIAL_NAMES.items():
    setattr(Timestamp, _name, Timestamp.of(_value))
del _value, _name
