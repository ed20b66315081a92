"""Medians of measurements, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import Final, NamedTuple

_CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A median between its limits of confidence (95 %)."""

    low: float
    median: float
    high: float

    @property
    def width(self) -> float:
        """The distance of the limits, as a part of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of one or more values, with its limits.

    The limits are values themselves, counted from both ends so far that the binomial distribution
    keeps 95 % between them: nothing is assumed about the values. Fewer than six cannot give that
    confidence; their limits are the least and the greatest.
    """
    ordered = sorted(values)
    place = _place(len(ordered))
    return Interval(ordered[place], median(ordered), ordered[-1 - place])


def _place(count: int) -> int:
    """Return how many values may lie outside of the limits at each end."""
    outside, place = 0.0, 0
    while True:
        outside += 2 * comb(count, place) / 2**count
        if outside > 1 - _CONFIDENCE:
            return max(0, place - 1)
        place += 1
