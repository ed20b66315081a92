"""`EmbeddingsResourceInitializer`: fills ``EMBEDDINGS_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from calculators.embeddings.node_options import read_embeddings_options
from calculators.embeddings.servable import EmbeddingsServable
from calculators.model_identity import model_identity
from calculators.places import Places
from calculators.tasks.options import naming_node
from calculators.text_models.model_options import compiled_entry
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "EMBEDDINGS_NODE_RESOURCES"

_CALCULATORS: Final = ("EmbeddingsCalculatorOV", "TextEmbeddingCalculator")

_log = logging.getLogger("graphrt.embeddings")


class EmbeddingsResourceInitializer:
    """Loads the model of every node whose calculator's name ends in one of two names."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith(_CALCULATORS)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        return read_embeddings_options(node, settings).warnings

    async def make(self, node: NodePlan, settings: ResourceSettings) -> EmbeddingsServable:
        options = await asyncio.to_thread(read_embeddings_options, node, settings)
        name = settings.model_name or node.config.name
        for warning in options.warnings:
            _log.warning("%s: %s", name, warning)
        entry = await asyncio.to_thread(
            compiled_entry, options.model, settings, {"pooling": options.pooling}
        )
        metrics = settings.metrics.of_node(node.config.name)
        place = settings.of(Places).of_node(node.config.name)
        servable = EmbeddingsServable(options, name, entry, metrics, place)
        with naming_node(node):
            await servable.start(settings.progress)
        return servable

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_embeddings_options(node, settings)
        return model_identity(options.model, options.pooling, paths=(options.model.directory,))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> EmbeddingsServable:
        """Return the model of ``resource`` with the other options of ``node``."""
        assert isinstance(resource, EmbeddingsServable)
        options = await asyncio.to_thread(read_embeddings_options, node, settings)
        return resource.with_options(options)
