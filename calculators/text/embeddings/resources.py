"""`EmbeddingsResourceInitializer`: fills ``EMBEDDINGS_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculators.kit.model_initializer import ModelHost
from calculators.text.embeddings.node_options import EmbeddingsOptions, read_embeddings_options
from calculators.text.embeddings.servable import EmbeddingsServable
from calculators.text.text_models.text_model_initializer import TextModelInitializer
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "EMBEDDINGS_NODE_RESOURCES"


class EmbeddingsResourceInitializer(TextModelInitializer[EmbeddingsOptions, EmbeddingsServable]):
    """Loads the model of every node that embeds texts."""

    tag = RESOURCES_TAG
    family = "embeddings"
    calculators = ("EmbeddingsCalculatorOV", "TextEmbeddingCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> EmbeddingsOptions:
        return read_embeddings_options(node, settings)

    def warnings(self, options: EmbeddingsOptions) -> Sequence[str]:
        return options.warnings

    def resource(
        self, options: EmbeddingsOptions, host: ModelHost, settings: ResourceSettings
    ) -> EmbeddingsServable:
        return EmbeddingsServable(options, host)

    def with_options(
        self, resource: EmbeddingsServable, options: EmbeddingsOptions
    ) -> EmbeddingsServable:
        return resource.with_options(options)
