"""The error of exports."""

from __future__ import annotations


class ExportError(Exception):
    """A model cannot be exported. ``hint`` suggests a remedy."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
