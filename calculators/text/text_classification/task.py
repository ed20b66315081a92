"""The task ``text_classification``: what servers need to know of models that classify texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.model_config import has_safetensors, is_text_classifier
from calculators.kit.tasks.options import DeviceOptions
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.text.text_classification.endpoints import ENDPOINTS

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.text.text_classification.classifier import TextClassifier
    from graph_runtime import Registry


def _register(registry: Registry) -> None:
    from calculators.text.text_classification.resources import TextClassificationResourceInitializer
    from calculators.text.text_classification.text_classification_calculator import (
        TextClassificationCalculator,
    )
    from calculators.text.text_classification.text_classification_calculator_ov import (
        TextClassificationCalculatorOV,
    )

    registry.register_calculator(TextClassificationCalculatorOV)
    registry.register_calculator(TextClassificationCalculator)
    registry.register_resource_initializer(TextClassificationResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("TextClassificationCalculatorOV")


def _describe(model: str) -> TaskDescription:
    from calculators.text.text_classification.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.text.text_classification.task_graph import text_classification_graph

    return text_classification_graph(DeviceOptions(**options), model.models_path)


def _recognizes(path: Path) -> bool:
    return (path / "openvino_model.xml").is_file() and is_text_classifier(path)


def _recognizes_source(path: Path) -> bool:
    return has_safetensors(path) and is_text_classifier(path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    return ("--task", "text-classification")


def _example(model: str) -> tuple[str, dict[str, Any]]:
    return "/v3/classify", {"model": model, "input": "Hello"}


def _facts(classifier: TextClassifier) -> Mapping[str, Any]:
    """Return the length of a window, by vLLM's name, and the classes."""
    return {"max_model_len": classifier.max_tokens, "labels": list(classifier.classes.labels)}


TASK: Final = Task(
    name="text_classification",
    endpoints=tuple(ENDPOINTS.values()),
    register=_register,
    calculators=("TextClassificationCalculatorOV", "TextClassificationCalculator"),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/text/text_classification/README.md",
    options=DeviceOptions,
    recognizes=_recognizes,
    recognizes_source=_recognizes_source,
    export_arguments=_export_arguments,
    model_facts=_facts,
)
