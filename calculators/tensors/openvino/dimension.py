"""`Dimension`: the allowed lengths of an axis. Imports nothing slow."""

from __future__ import annotations

from typing import NamedTuple


class Dimension(NamedTuple):
    """The allowed lengths of an axis: ``low`` to ``high``; None is no limit."""

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return "?" if self.low == 0 else f"{self.low}.."
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"

    def allows(self, length: int) -> bool:
        """True if an axis may have this length."""
        return self.low <= length and (self.high is None or length <= self.high)
