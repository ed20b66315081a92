"""The task ``text_classification``: describes models that classify texts to servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.model_config import is_text_classifier
from calculators.kit.tasks.task import DeviceOptions, ModelToServe, graph_text
from calculators.text.text_classification.endpoints import ENDPOINTS
from calculators.text.text_models.encoder_task import INFO, EncoderTask, encoder_graph

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

_GRAPH: Final = encoder_graph(
    "TextClassificationExecutor",
    "TextClassificationCalculatorOV",
    "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier",
    "graphrt.TextClassificationCalculatorOVOptions",
)


class TextClassificationTask(EncoderTask):
    """The task of models that classify texts."""

    name = "text_classification"
    endpoints = (*ENDPOINTS.values(), INFO)
    docs = "calculators/text/text_classification/README.md"
    calculators = ("TextClassificationCalculatorOV", "TextClassificationCalculator")
    options = DeviceOptions

    def register(self, registry: Registry) -> None:
        from calculators.text.text_classification.classifier import (
            TextClassificationResourceInitializer,
        )
        from calculators.text.text_classification.nodes import (
            TextClassificationCalculator,
            TextClassificationCalculatorOV,
        )

        registry.register_calculator(TextClassificationCalculatorOV)
        registry.register_calculator(TextClassificationCalculator)
        registry.register_resource_initializer(TextClassificationResourceInitializer())

    def describe(self, model: str) -> TaskDescription:
        from calculators.text.text_classification.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        return graph_text(_GRAPH, model.models_path, DeviceOptions(**options))

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        return "/v3/classify", {"model": model, "input": "Hello"}

    def is_model(self, directory: Path) -> bool:
        return is_text_classifier(directory)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        return ("--task", "text-classification")

    def model_facts(self, resource: Any) -> Mapping[str, Any]:
        """Return the length of a window, by vLLM's name, and the classes."""
        return {**super().model_facts(resource), "labels": list(resource.classes.labels)}


TASK: Final = TextClassificationTask()
