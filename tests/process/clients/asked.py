"""What every client asks, so that their answers can be compared."""

from __future__ import annotations

from typing import Final

MODEL: Final = "demo"
API_KEY: Final = "unused"
QUESTION: Final = "Hello"
PROMPT: Final = "Once upon a time"
MAX_TOKENS: Final = 12
#: A temperature out of range, and a name that is not served.
TOO_HOT: Final = 99.0
NO_MODEL: Final = "no-such-model"
