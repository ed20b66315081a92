"""`StopStrings`: cuts text at a stop string, and holds back text that may become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


class StopStrings:
    """Passes on text that contains no stop string and no beginning of one at its end.

    The stop string that is complete first ends the text; of several that are complete at the same
    place, the longest. So the result does not depend on the pieces in which the text arrives. With
    ``include`` the stop string is part of the text that it ended.

    Attributes:
        is_active: the text has stop strings to look for.
        matched: the stop string that ended the text, if one did.
    """

    __slots__ = ("_held", "_include", "_stops", "is_active", "matched")

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self._stops = tuple(filter(None, stops))
        self.is_active = bool(self._stops)
        self._include = include
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that is certain; "" once a stop string has ended it (``matched``)."""
        if not self._stops:
            return text
        if self.matched is not None:
            return ""
        text = self._held + text
        places = [(text.find(stop), len(stop)) for stop in self._stops]
        found = min(
            ((place + length, place) for place, length in places if place >= 0), default=None
        )
        if found is not None:
            end, place = found
            self.matched = text[place:end]
            self._held = ""
            return text[:end] if self._include else text[:place]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return the text that was held back and did not become a stop string."""
        held, self._held = self._held, ""
        return held


#: For answers that no string ends. Passes all text on, so all of them share it.
NO_STOPS: Final = StopStrings(())


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` with which ``stop`` begins."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
