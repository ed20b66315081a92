"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.text.text_models import encoder_task

LIMITS: Final = (
    f"{encoder_task.MAX_TEXTS}; {encoder_task.MAX_CHARACTERS >> 10} Ki; "
    f"{encoder_task.MAX_ALL_CHARACTERS >> 20} Mi",
)
