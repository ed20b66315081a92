"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.speech.text_to_speech import request as speech_request
from calculators.speech.text_to_speech import servable as speech

LIMITS: Final = (
    f"{speech_request.MAX_CHARACTERS:,}, {speech_request.MAX_WHOLE_CHARACTERS:,}; "
    f"{speech.MOST_REQUESTS}; {speech.CPU_SECONDS:g} s",
)
