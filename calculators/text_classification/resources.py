"""`TextClassificationResourceInitializer`: fills ``TEXT_CLASSIFICATION_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from calculators.model_identity import model_identity
from calculators.places import Places
from calculators.tasks.options import naming_node
from calculators.text_classification.classifier import TextClassifier
from calculators.text_classification.node_options import read_classifier_options
from calculators.text_models.model_options import compiled_entry
from graph_runtime import NodePlan, NodeResource, ResourceSettings

RESOURCES_TAG: Final = "TEXT_CLASSIFICATION_NODE_RESOURCES"
_NAMES: Final = (
    "TextClassificationCalculatorOV",
    "TextClassificationCalculator",
    "RequestLabelCalculator",
)


class TextClassificationResourceInitializer:
    """Loads the model of every node that classifies texts."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith(_NAMES)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        read_classifier_options(node, settings)
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> TextClassifier:
        options = await asyncio.to_thread(read_classifier_options, node, settings)
        name = settings.model_name or node.config.name
        entry = await asyncio.to_thread(compiled_entry, options.model, settings, {})
        metrics = settings.metrics.of_node(node.config.name)
        place = settings.of(Places).of_node(node.config.name)
        classifier = TextClassifier(options, name, metrics, entry, place)
        with naming_node(node):
            await classifier.start(settings.progress)
        return classifier

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        model = read_classifier_options(node, settings).model
        return model_identity(model, paths=(model.directory,))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> TextClassifier:
        """Return the model of ``resource`` with the labels and categories of ``node``."""
        assert isinstance(resource, TextClassifier)
        options = await asyncio.to_thread(read_classifier_options, node, settings)
        with naming_node(node):
            return resource.with_options(options)
