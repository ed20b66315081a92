"""`RerankResourceInitializer`: fills ``RERANK_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculators.kit.model_initializer import ModelHost
from calculators.text.rerank.node_options import RerankOptions, read_rerank_options
from calculators.text.rerank.servable import RerankServable
from calculators.text.text_models.text_model_initializer import TextModelInitializer
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "RERANK_NODE_RESOURCES"


class RerankResourceInitializer(TextModelInitializer[RerankOptions, RerankServable]):
    """Loads the model of every node that ranks texts."""

    tag = RESOURCES_TAG
    family = "rerank"
    calculators = ("RerankCalculatorOV", "TextRerankCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> RerankOptions:
        return read_rerank_options(node, settings)

    def warnings(self, options: RerankOptions) -> Sequence[str]:
        return options.warnings

    def resource(
        self, options: RerankOptions, host: ModelHost, settings: ResourceSettings
    ) -> RerankServable:
        return RerankServable(options, host)

    def with_options(self, resource: RerankServable, options: RerankOptions) -> RerankServable:
        return resource.with_options(options)
