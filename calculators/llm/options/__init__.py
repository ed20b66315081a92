"""An LLM node's options, checked before anything is loaded."""

from __future__ import annotations

from typing import Final

OPTIONS_TYPE: Final = "mediapipe.LLMCalculatorOptions"
