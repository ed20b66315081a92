"""The engine's reasons for the end of a sequence, in the words of answers."""

from __future__ import annotations

from typing import Final

from calculators.language.finish_reason import FinishReason

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
