"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.text.rerank import request as ranking
from calculators.text.rerank.task import RerankTaskOptions

LIMITS: Final = (
    f"{ranking.MAX_QUERY_CHARACTERS >> 10} Ki, {ranking.MAX_CHARACTERS >> 20} Mi, "
    f"{ranking.MAX_ALL_CHARACTERS >> 20} Mi, "
    f"{ranking.MAX_INSTRUCTION_CHARACTERS >> 10} Ki; "
    f"{RerankTaskOptions().max_allowed_chunks:,} (`--max_allowed_chunks`)",
)
