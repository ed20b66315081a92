"""The calculator of running_sum.pbtxt. It keeps no state: the back edge carries it."""

from graphrt import calculator


@calculator("AddToTotal")
def add_to_total(*, number: int, previous: int = 0) -> int:
    """Add a number to the total so far, which starts at 0."""
    return previous + number
