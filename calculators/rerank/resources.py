"""`RerankResourceInitializer`: fills ``RERANK_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from calculators.model_identity import model_identity
from calculators.places import Places
from calculators.rerank.node_options import read_rerank_options
from calculators.rerank.servable import HEAD, RerankServable
from calculators.tasks.options import naming_node
from calculators.text_models.model_options import compiled_entry
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "RERANK_NODE_RESOURCES"

_CALCULATORS: Final = ("RerankCalculatorOV", "TextRerankCalculator")
_log = logging.getLogger("graphrt.rerank")


class RerankResourceInitializer:
    """Loads the model of every node whose calculator's name ends in one of the task's."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith(_CALCULATORS)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        return read_rerank_options(node, settings).warnings

    async def make(self, node: NodePlan, settings: ResourceSettings) -> RerankServable:
        options = await asyncio.to_thread(read_rerank_options, node, settings)
        name = settings.model_name or node.config.name
        for warning in options.warnings:
            _log.warning("%s: %s", name, warning)
        entry = await asyncio.to_thread(compiled_entry, options.model, settings, HEAD)
        metrics = settings.metrics.of_node(node.config.name)
        place = settings.of(Places).of_node(node.config.name)
        servable = RerankServable(options, name, metrics, entry, place)
        with naming_node(node):
            await servable.start(settings.progress)
        return servable

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        model = read_rerank_options(node, settings).model
        return model_identity(model, paths=(model.directory,))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> RerankServable:
        """Return the model of ``resource`` with the other options of ``node``."""
        assert isinstance(resource, RerankServable)
        options = await asyncio.to_thread(read_rerank_options, node, settings)
        return resource.with_options(options)
