"""`TextClassificationResourceInitializer`: fills ``TEXT_CLASSIFICATION_NODE_RESOURCES``."""

from __future__ import annotations

from typing import Final

from calculators.kit.model_initializer import ModelHost
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.node_options import (
    ClassifierOptions,
    read_classifier_options,
)
from calculators.text.text_models.text_model_initializer import TextModelInitializer
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "TEXT_CLASSIFICATION_NODE_RESOURCES"


class TextClassificationResourceInitializer(
    TextModelInitializer[ClassifierOptions, TextClassifier]
):
    """Loads the model of every node that classifies texts."""

    tag = RESOURCES_TAG
    family = "text_classification"
    calculators = (
        "TextClassificationCalculatorOV",
        "TextClassificationCalculator",
        "RequestLabelCalculator",
    )

    def read(self, node: NodePlan, settings: ResourceSettings) -> ClassifierOptions:
        return read_classifier_options(node, settings)

    def resource(
        self, options: ClassifierOptions, host: ModelHost, settings: ResourceSettings
    ) -> TextClassifier:
        return TextClassifier(options, host)

    def with_options(self, resource: TextClassifier, options: ClassifierOptions) -> TextClassifier:
        return resource.with_options(options)
