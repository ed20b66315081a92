"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.text.embeddings import request as texts

LIMITS: Final = (
    f"{texts.MAX_TEXTS}; {texts.MAX_CHARACTERS >> 10} Ki; {texts.MAX_ALL_CHARACTERS >> 20} Mi",
)
