"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.llm.conversation import items, response
from calculators.llm.conversation import settings as conversation
from calculators.speech.speech_to_text import pipeline_process
from calculators.speech.speech_to_text import servable as listening
from calculators.speech.speech_to_text.realtime import session
from calculators.speech.speech_to_text.realtime.session import MOST_SECONDS

LIMITS: Final = (
    f"{session.MOST_SPEECH_MS // 1000} s, {MOST_SECONDS} s; "
    f"{session.MOST_WAITING}, {session.MOST_EVENTS}; {session.MOST_BAD}",
    f"{items.MOST_ITEMS:,}, {items.MOST_CHARACTERS:,}; {conversation.MOST_INSTRUCTIONS:,}; "
    f"{conversation.MOST_TOOLS}; {response.MOST_WAITING}",
    f"{listening.MOST_SECONDS:g} s; {listening.MOST_SOUNDS}, {listening.MOST_BYTES >> 20} MiB; "
    f"{listening.MOST_CLIENT_SECONDS:,.0f} s",
    f"{pipeline_process.CPU_SECONDS:g} s, {pipeline_process.CPU_SECONDS_PER_SECOND:g} s; "
    f"{pipeline_process.HANG_SECONDS:g} s",
)
