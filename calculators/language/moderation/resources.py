"""`ModerationResourceInitializer`: loads the classifiers of nodes that moderate."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.kit.tasks.nodes import naming_node
from calculators.text.text_classification.classifier import (
    TextClassificationResourceInitializer,
    TextClassifier,
)
from calculators.text.text_classification.node_options import OPTIONS_TYPE
from graph_runtime import NodePlan, NodeResource, ResourceError, ResourceSettings, has_options


class ModerationResourceInitializer:
    """Loads the model of every node that moderates with a classifier."""

    tag: str = TextClassificationResourceInitializer.tag
    context_tags: Sequence[str] = ()

    def __init__(self) -> None:
        self._classifiers = TextClassificationResourceInitializer()

    def matches(self, calculator: str) -> bool:
        return calculator.endswith("ModerationCalculator")

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        if has_options(node.config, OPTIONS_TYPE):
            return self._classifiers.check(node, settings)
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        if not has_options(node.config, OPTIONS_TYPE):
            return _NoClassifier()
        classifier = await self._classifiers.make(node, settings)
        try:
            return _checked(classifier, node)
        except ResourceError:
            await classifier.close()
            raise

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        if has_options(node.config, OPTIONS_TYPE):
            return self._classifiers.identity(node, settings)
        return None

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> TextClassifier:
        """Return the model of ``resource`` with the categories of ``node``."""
        return _checked(await self._classifiers.adopt(resource, node, settings), node)


def _checked(classifier: TextClassifier, node: NodePlan) -> TextClassifier:
    """Return a classifier that has labels for categories of moderations.

    Raises:
        ResourceError: it has none.
    """
    if classifier.classes.rules:
        return classifier
    labels = ", ".join(classifier.classes.labels[:20])
    with naming_node(node):
        raise ResourceError(
            "categories: none of the model's labels has the name of a category of moderations; say "
            f"which label stands for which category. The labels: {labels}"
        )
    raise AssertionError


class _NoClassifier:
    """The resource of a node with rules only."""

    unavailable_reason = ""

    async def close(self) -> None:
        return
