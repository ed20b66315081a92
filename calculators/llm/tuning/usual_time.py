"""`UsualTime`: finds the rounds that something else on the machine has disturbed."""

from __future__ import annotations

from statistics import median
from typing import Final

#: A disturbed round takes this multiple of the usual time.
_DISTURBED: Final = 1.5
#: Rounds after which the usual time is known.
_KNOWN_AFTER: Final = 3


class UsualTime:
    """The seconds of the defaults' rounds; the usual time is their median.

    The best time would not do: it may be of a round without other engines, which no later round
    reaches.
    """

    def __init__(self) -> None:
        self._times: list[float] = []

    def is_disturbed(self, seconds: float) -> bool:
        """Add a round; return True if it took so long that it does not count."""
        self._times.append(seconds)
        is_known = len(self._times) > _KNOWN_AFTER
        return is_known and seconds > _DISTURBED * median(self._times)
