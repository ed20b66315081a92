"""`MessageJoiner`: the texts of several messages as one."""

from __future__ import annotations


class MessageJoiner:
    """Puts a separator between messages, those without text not counting."""

    __slots__ = ("_has_text", "_is_new", "_separator")

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._has_text = False
        self._is_new = False

    def begin(self) -> None:
        """Another message begins."""
        self._is_new = self._has_text

    def add(self, text: str) -> str:
        """More text of the message, not empty, with what comes before it."""
        self._has_text = True
        if self._is_new:
            self._is_new = False
            return self._separator + text
        return text
