"""`ImageGenResourceInitializer`: fills ``IMAGE_GEN_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.image_generation.image_settings import ImageSettings
from calculators.image_generation.node_options import ImageGenOptions, read_image_gen_options
from calculators.image_generation.servable import ImageGenServable
from calculators.model_cache import CacheEntry, ModelCache
from calculators.model_cache.compiled_models import hold_compiled
from calculators.model_identity import model_identity
from calculators.tasks.options import naming_node
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "IMAGE_GEN_NODE_RESOURCES"

_log = logging.getLogger("graphrt.image_generation")


class ImageGenResourceInitializer:
    """Loads the model of every node that draws."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith(("ImageGenCalculator", "ImageGenerationCalculator"))

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        return read_image_gen_options(node, settings).warnings

    async def make(self, node: NodePlan, settings: ResourceSettings) -> ImageGenServable:
        options = await asyncio.to_thread(read_image_gen_options, node, settings)
        name = settings.model_name or node.config.name
        for warning in options.warnings:
            _log.warning("%s: %s", name, warning)
        entry = None
        if settings.cache_dir and not options.loras.adapters:
            cache = ModelCache(Path(settings.cache_dir), settings.cache_bytes)
            entry = await asyncio.to_thread(_cache_entry, options, cache)
        metrics = settings.metrics.of_node(node.config.name)
        servable = ImageGenServable(options, name, settings.of(ImageSettings), metrics, entry)
        with naming_node(node):
            await servable.start(settings.progress)
        return servable

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_image_gen_options(node, settings)
        adapters = (adapter.path for adapter in options.loras.adapters)
        return model_identity(options, paths=(options.directory, *adapters))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: all options belong to its identity."""
        return resource


def _cache_entry(options: ImageGenOptions, cache: ModelCache) -> CacheEntry | None:
    """Return the entry of the compiled models; None if the cache cannot be used."""
    files = [
        file
        for file in sorted(options.directory.glob("*/openvino_*"))
        if file.suffix in (".xml", ".bin")
    ]
    device = " ".join(options.devices)
    return hold_compiled(cache, files, device, options.properties, options.static)
