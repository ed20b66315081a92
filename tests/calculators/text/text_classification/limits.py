"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.text.text_classification import request as classified_texts

LIMITS: Final = (
    f"{classified_texts.MAX_TEXTS}; {classified_texts.MAX_CHARACTERS >> 10} Ki; "
    f"{classified_texts.MAX_ALL_CHARACTERS >> 20} Mi",
)
