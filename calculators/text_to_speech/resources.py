"""`T2sResourceInitializer`: fills ``TTS_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.model_cache import CacheEntry, ModelCache
from calculators.model_cache.compiled_models import hold_compiled
from calculators.model_identity import model_identity
from calculators.tasks.options import naming_node
from calculators.text_to_speech.node_options import T2sOptions, read_t2s_options
from calculators.text_to_speech.servable import T2sServable
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "TTS_NODE_RESOURCES"
#: The ends of the names of calculators that have such a resource.
CALCULATORS: Final = ("T2sCalculator", "TextToSpeechCalculator")

_log: Final = logging.getLogger("graphrt.text_to_speech")


class T2sResourceInitializer:
    """Loads the model of every node that speaks."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith(CALCULATORS)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        return read_t2s_options(node, settings).warnings

    async def make(self, node: NodePlan, settings: ResourceSettings) -> T2sServable:
        options = await asyncio.to_thread(read_t2s_options, node, settings)
        for warning in options.warnings:
            _log.warning("%s: %s", settings.model_name or node.config.name, warning)
        entry = None
        if settings.cache_dir:
            cache = ModelCache(Path(settings.cache_dir), settings.cache_bytes)
            entry = await asyncio.to_thread(_cache_entry, options, cache)
        servable = T2sServable(
            options,
            settings.model_name or node.config.name,
            settings.metrics.of_node(node.config.name),
            entry,
        )
        with naming_node(node):
            await servable.start(settings.progress)
        return servable

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_t2s_options(node, settings)
        return model_identity(options, paths=(options.directory, *options.voices.values()))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: all options belong to its identity."""
        return resource


def _cache_entry(options: T2sOptions, cache: ModelCache) -> CacheEntry | None:
    """Return the entry of the compiled models; None if the cache cannot be used."""
    files = sorted(
        file for ending in ("xml", "bin") for file in options.directory.glob(f"openvino_*.{ending}")
    )
    return hold_compiled(cache, files, options.device, options.properties)
