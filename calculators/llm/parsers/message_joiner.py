"""`MessageJoiner`: the texts of several messages as one."""

from __future__ import annotations


class MessageJoiner:
    """Joins the texts of messages with a separator. Messages without text do not count."""

    __slots__ = ("_has_text", "_is_new", "_separator")

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._has_text = False
        self._is_new = False

    def begin(self) -> None:
        """Begin another message."""
        self._is_new = self._has_text

    def add(self, text: str) -> str:
        """Return more text of the message, not empty, after the separator if one is due."""
        self._has_text = True
        if self._is_new:
            self._is_new = False
            return self._separator + text
        return text
