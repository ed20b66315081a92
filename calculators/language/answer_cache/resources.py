"""`AnswerCacheInitializer`: makes the side packet ``ANSWER_CACHE``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from calculators.kit.model_initializer import cache_of, host_of
from calculators.kit.tasks.nodes import naming_node
from calculators.language.answer_cache.answer_cache import AnswerCache
from calculators.language.answer_cache.similar_questions import SimilarQuestions
from calculators.text.embeddings.servable import (
    OPTIONS_TYPE,
    EmbeddingsServable,
    read_embeddings_options,
)
from calculators.text.text_models.model_options import compiled_entry
from graph_runtime import NodePlan, ResourceError, ResourceSettings, has_options
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

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        if _similarity(node):
            return read_embeddings_options(node, settings).warnings
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> AnswerCache:
        options = options_of_node(node.config, OPTIONS)
        similarity = _similarity(node)
        similar = None
        if similarity:
            similar = SimilarQuestions(await _embedder(node, settings), similarity)
        return AnswerCache(
            options.max_bytes,
            options.max_seconds,
            keeps_samples=options.samples,
            similar=similar,
        )


def _similarity(node: NodePlan) -> float:
    """Return the least cosine of similar questions; 0: they are not compared.

    Raises:
        ResourceError: it is no cosine, or there is no model, or a model without it.
    """
    similarity: float = options_of_node(node.config, OPTIONS).similarity
    has_model = has_options(node.config, OPTIONS_TYPE)
    with naming_node(node):
        if not 0 <= similarity <= 1:
            raise ResourceError(f"similarity: {similarity:g} is not between 0 and 1")
        if similarity and not has_model:
            raise ResourceError(
                "similarity: add the model that compares questions: node_options { "
                f'[type.googleapis.com/{OPTIONS_TYPE}] {{ models_path: "..." }} }}'
            )
        if has_model and not similarity:
            raise ResourceError(
                "similarity: set it, such as 0.95; the node has a model that compares questions"
            )
    return similarity


async def _embedder(node: NodePlan, settings: ResourceSettings) -> EmbeddingsServable:
    options = await asyncio.to_thread(read_embeddings_options, node, settings)
    entry = await asyncio.to_thread(compiled_entry, options.model, cache_of(settings), options.head)
    embedder = EmbeddingsServable(options, host_of(node, settings, entry))
    with naming_node(node):
        await embedder.start(settings.progress)
    return embedder
