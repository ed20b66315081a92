"""`TokenLogprob`: a token of an answer with its log-probability."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token as text and as bytes, with its log-probability.

    The text of a token that is part of a character has U+FFFD. A ``logprob`` above 0, NaN or None
    is unknown, as for the first token of an echoed prompt.
    """

    token: str
    bytes: bytes
    logprob: float | None
