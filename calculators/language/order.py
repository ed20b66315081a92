"""`OrderCheck`: checks the order of the items of an answer, for tests and ``graphrt run``."""

from __future__ import annotations

from collections.abc import Iterable

from calculators.language.delta import (
    Begun,
    Delta,
    Ended,
    Failed,
    Finished,
    Gained,
    Submitted,
)


class OrderError(ValueError):
    """Items of an answer are in an order that no answer has. The text names item and node."""


class OrderCheck:
    """Follows the items of one answer.

    Attributes:
        is_done: the answer has ended or failed.
    """

    def __init__(self, node: str = "") -> None:
        """``node``: the name of the node that sends the items, for errors."""
        self._from = f' of node "{node}"' if node else ""
        self._open: set[int] | None = None
        self.is_done = False

    def feed(self, items: Iterable[Delta]) -> None:
        """Check the next items.

        Raises:
            OrderError: an item cannot stand here.
        """
        for item in items:
            problem = self._problem(item)
            if problem:
                raise OrderError(f"{type(item).__name__}{self._from}: {problem}")

    def finish(self) -> None:
        """Check that the answer is complete.

        Raises:
            OrderError: it is not.
        """
        if not self.is_done:
            raise OrderError(f"the answer{self._from} ended without Ended or Failed")

    def _problem(self, item: Delta) -> str:
        if self.is_done:
            return "the answer has ended"
        match item:
            case Failed():
                self.is_done = True
                return ""
            case Submitted():
                return "it comes after Begun" if self._open is not None else ""
            case Begun(choices):
                if self._open is not None:
                    return "the answer has begun"
                self._open = set(range(choices))
                return ""
            case _:
                return self._problem_inside(item)

    def _problem_inside(self, item: Delta) -> str:
        if self._open is None:
            return "it comes before Begun"
        match item:
            case Ended():
                self.is_done = True
                still = ", ".join(map(str, sorted(self._open)))
                return f"choices {still} have not finished" if still else ""
            case Gained(choice) if choice not in self._open:
                return f"choice {choice} has finished, or does not exist"
            case Finished(choice):
                if choice not in self._open:
                    return f"choice {choice} has finished, or does not exist"
                self._open.discard(choice)
            case _:
                pass
        return ""
