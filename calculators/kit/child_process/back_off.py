"""`BackOff`: pauses before a process or a session that ended is started again."""

from __future__ import annotations

from typing import Final

FIRST_DELAY: Final = 0.2
LAST_DELAY: Final = 30.0
#: Seconds after which a life counts as good, and the pauses begin with the shortest again.
GOOD_LIFE: Final = 60.0


class BackOff:
    """Pauses in seconds, each twice as long as the one before, up to a longest one.

    Attributes:
        failures: lives that ended since the last good one.
    """

    def __init__(
        self, first: float = FIRST_DELAY, last: float = LAST_DELAY, good_life: float = GOOD_LIFE
    ) -> None:
        self.failures = 0
        self._first = self._next = first
        self._last = last
        self._good_life = good_life

    def note_life(self, seconds: float) -> None:
        """Return to the shortest pause if the life that has just ended was a good one."""
        if seconds > self._good_life:
            self.failures = 0
            self._next = self._first

    def next_pause(self) -> float:
        """Return the pause until the next life, and count the end of the last one as a failure."""
        pause = self._next
        self.failures += 1
        # A process that cannot load, such as one whose file is gone, would otherwise keep a core
        # busy with its imports.
        self._next = min(2 * pause, self._last)
        return pause
