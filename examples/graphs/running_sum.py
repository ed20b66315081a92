"""The calculator of running_sum.pbtxt. It keeps no state: the loop does."""

from graph_runtime import calculator


@calculator("AddToTotal")
def add_to_total(*, number: int, previous: int = 0) -> int:
    """Adds a number to the total so far, which starts at 0."""
    return previous + number
