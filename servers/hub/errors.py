"""The error of everything that has to do with a hub."""

from __future__ import annotations


class HubError(Exception):
    """A model cannot be obtained from a hub. ``hint`` suggests a remedy."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
