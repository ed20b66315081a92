"""The calculator that the subgraph of smooth_twice.pbtxt uses."""

from graphrt import calculator


@calculator("MeanOfTwo")
def mean_of_two(*, a: float, b: float) -> float:
    """Return the mean of two values; no packet if one of them is missing."""
    return (a + b) / 2
