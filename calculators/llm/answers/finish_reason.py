"""`FinishReason`: OpenAI's words for the end of an answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FinishReason(StrEnum):
    """The values that clients know; strict clients refuse any other."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"

    @property
    def is_cut(self) -> bool:
        """Did the answer end before the model was done?"""
        return self in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


#: A full cache counts as a length that is reached. A cancelled answer has no reader.
_OF_ENGINE: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "cache": FinishReason.LENGTH,
    "cancelled": FinishReason.STOP,
}


def finish_reason(engine_reason: str) -> FinishReason:
    """Translate a `calculators.llm.engine.messages.FinishReason` of the engine."""
    return _OF_ENGINE.get(engine_reason, FinishReason.STOP)
