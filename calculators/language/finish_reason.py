"""`FinishReason`: OpenAI's words for the end of an answer."""

from __future__ import annotations

from enum import StrEnum


class FinishReason(StrEnum):
    """The values that clients know; strict clients refuse any other."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"

    @property
    def is_cut(self) -> bool:
        """True if the answer ended before the model was done."""
        return self in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
