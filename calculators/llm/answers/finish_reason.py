"""Why an answer ended, in OpenAI's words."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FinishReason(StrEnum):
    """The values that clients know; strict ones refuse any other."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"

    @property
    def is_cut(self) -> bool:
        """Would the answer have gone on?"""
        return self in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


#: A full cache ends an answer as its length would; a cancelled one has no reader.
_OF_ENGINE: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "cache": FinishReason.LENGTH,
    "cancelled": FinishReason.STOP,
}


def finish_reason(engine_reason: str) -> FinishReason:
    """OpenAI's word for the engine's (`calculators.llm.engine.messages.FinishReason`)."""
    return _OF_ENGINE.get(engine_reason, FinishReason.STOP)
