"""`AnswerCacheInitializer`: makes the side packet ``ANSWER_CACHE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculators.answer_cache.answer_cache import AnswerCache
from graph_runtime import NodePlan, ResourceSettings
from graph_runtime.authoring.contract import options_of_node

OPTIONS: Final = "graphrt.AnswerCacheOptions"
TAG: Final = "ANSWER_CACHE"


class AnswerCacheInitializer:
    """Makes the cache of every AnswerCacheCalculator.

    A reload of the graph makes a new one: the model behind it may be another.
    """

    tag: str = TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == "AnswerCacheCalculator"

    async def make(self, node: NodePlan, settings: ResourceSettings) -> AnswerCache:
        options = options_of_node(node.config, OPTIONS)
        return AnswerCache(options.max_bytes, options.max_seconds, keeps_samples=options.samples)
