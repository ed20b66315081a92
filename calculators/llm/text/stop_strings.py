"""`StopStrings`: cuts text where a stop string begins, and holds back what might become one."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Text in, text out that contains no stop string and not the beginning of one.

    The stop string that is complete first ends the text, the longest of those that are complete
    at the same place: so it does not matter in what pieces the text came.
    With ``include`` the stop string that ended the text belongs to it.

    Attributes:
        is_active: are there any?
        matched: the one that ended the text.
    """

    __slots__ = ("_held", "_include", "_stops", "is_active", "matched")

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self.is_active = bool(self._stops)
        self._include = include
        self._held = ""
        self.matched: str | None = None

    @property
    def is_stopped(self) -> bool:
        """Has one ended the text?"""
        return self.matched is not None

    def feed(self, text: str) -> str:
        """What may be shown now. Nothing after a stop string was seen (`is_stopped`)."""
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
        """What was held back: no stop string came of it."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How long the longest end of ``text`` is that begins ``stop``."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
