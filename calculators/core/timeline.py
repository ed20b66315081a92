"""A value that changes over packet time."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")


class ValueOverTime(Generic[T]):
    """Values over packet time, each valid from its timestamp until the next one's.

    Times are raw 64-bit values and are given in rising order. There is always at least one entry.
    """

    __slots__ = ("_times", "_values")

    def __init__(self, time: int, value: T) -> None:
        self._times = [time]
        self._values = [value]

    def set(self, time: int, value: T) -> None:
        """Make ``value`` valid from ``time`` on."""
        if time == self._times[-1]:
            self._values[-1] = value
        else:
            self._times.append(time)
            self._values.append(value)

    def at(self, time: int) -> T | None:
        """Return the value at ``time``; None before the first one that is still known."""
        place = bisect_right(self._times, time)
        return self._values[place - 1] if place else None

    def forget_before(self, time: int) -> None:
        """Keep only what is needed to answer `at` from ``time`` on."""
        place = bisect_right(self._times, time) - 1
        if place > 0:
            del self._times[:place], self._values[:place]

    @property
    def first(self) -> tuple[int, T]:
        """The oldest known value, after the time at which it became valid."""
        return self._times[0], self._values[0]

    @property
    def second_time(self) -> int | None:
        """The time at which the oldest known value was replaced; None if it is still valid."""
        return self._times[1] if len(self._times) > 1 else None

    def drop_first(self) -> None:
        """Forget the oldest value. There must be another one."""
        del self._times[0], self._values[0]
