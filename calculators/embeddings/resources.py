"""`EmbeddingsResourceInitializer`: fills ``EMBEDDINGS_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.embeddings.node_options import EmbeddingsOptions, read_embeddings_options
from calculators.embeddings.servable import EmbeddingsServable
from calculators.model_cache import CacheEntry, ModelCache
from calculators.model_cache.compiled_models import hold_compiled
from calculators.tasks.options import naming_node
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "EMBEDDINGS_NODE_RESOURCES"

_log = logging.getLogger("graphrt.embeddings")


class EmbeddingsResourceInitializer:
    """Loads the model of every node whose calculator's name ends in ``EmbeddingsCalculatorOV``."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith("EmbeddingsCalculatorOV")

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        return read_embeddings_options(node, settings).warnings

    async def make(self, node: NodePlan, settings: ResourceSettings) -> EmbeddingsServable:
        options = await asyncio.to_thread(read_embeddings_options, node, settings)
        name = settings.model_name or node.config.name
        for warning in options.warnings:
            _log.warning("%s: %s", name, warning)
        entry = None
        if settings.cache_dir:
            cache = ModelCache(Path(settings.cache_dir), settings.cache_bytes)
            entry = await asyncio.to_thread(_cache_entry, options, cache)
        servable = EmbeddingsServable(options, name, entry)
        with naming_node(node):
            await servable.start(settings.progress)
        return servable


def _cache_entry(options: EmbeddingsOptions, cache: ModelCache) -> CacheEntry | None:
    """Return the entry of the compiled model; None if the cache cannot be used."""
    files = [options.directory / f"openvino_model{ending}" for ending in (".xml", ".bin")]
    return hold_compiled(cache, files, options.device, options.properties)
