"""`SpeechToTextResourceInitializer`: makes the side packet ``STT_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.model_cache import CacheEntry, ModelCache
from calculators.model_cache.compiled_models import hold_compiled
from calculators.model_identity import model_identity
from calculators.speech_to_text.node_options import SpeechToTextOptions, read_speech_options
from calculators.speech_to_text.servable import SpeechToTextServable
from calculators.speech_to_text.speech_metrics import SpeechMetrics
from calculators.tasks.options import naming_node
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "STT_NODE_RESOURCES"
_CALCULATORS: Final = ("S2tCalculator", "SpeechToTextCalculator")


def is_speech_calculator(calculator: str) -> bool:
    """Return whether nodes of this calculator type have a speech model."""
    return calculator.endswith(_CALCULATORS)


class SpeechToTextResourceInitializer:
    """Loads the model of every node of the two calculators for speech."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return is_speech_calculator(calculator)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        read_speech_options(node, settings)
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> SpeechToTextServable:
        options = await asyncio.to_thread(read_speech_options, node, settings)
        name = settings.model_name or node.config.name
        entry = None
        if settings.cache_dir:
            cache = ModelCache(Path(settings.cache_dir), settings.cache_bytes)
            entry = await asyncio.to_thread(_cache_entry, options, cache)
        metrics = SpeechMetrics(settings.metrics.of_node(node.config.name))
        servable = SpeechToTextServable(options, name, metrics, entry)
        with naming_node(node):
            await servable.start(settings.progress)
        return servable

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_speech_options(node, settings)
        return model_identity(options, paths=(options.directory,))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: all options belong to its identity."""
        return resource


def _cache_entry(options: SpeechToTextOptions, cache: ModelCache) -> CacheEntry | None:
    """Return the entry of the compiled model; None if the cache cannot be used."""
    files = sorted(
        file
        for ending in ("xml", "bin")
        for file in options.directory.glob(f"openvino_*.{ending}")
        if file.is_file()
    )
    words = options.finds_words
    return hold_compiled(cache, files, options.device, options.properties, words)
