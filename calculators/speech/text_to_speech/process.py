"""The model's process: ``python -m calculators.speech.text_to_speech.process DESCRIPTOR
PARENT``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.kit.child_process.answering_process import Report, run
from calculators.speech.text_to_speech.messages import (
    VoiceLoad,
    VoiceReady,
    VoiceRefused,
    to_model_decoder,
)


def load(message: VoiceLoad, report: Report) -> tuple[VoiceReady, Callable[[Any], Any]]:
    """Load the model and its voices."""
    # Imported here: the libraries take long to load, and may be what is broken.
    if message.piper is not None:
        from calculators.speech.text_to_speech.piper import PiperVoice

        return VoiceReady(), PiperVoice(message, message.piper, report).speak
    from calculators.speech.text_to_speech.speech_model import VoiceModel

    return VoiceReady(), VoiceModel(message, report).speak


if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_model_decoder.decode, VoiceLoad, load, VoiceRefused))
