"""The task ``rerank``: what servers need to know of models that score pairs of texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.model_config import has_safetensors, is_cross_encoder, is_language_model
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.text.rerank.endpoints import DETOKENIZE, RERANK, SCORE, TOKENIZE
from calculators.text.rerank.task_options import RerankTaskOptions

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.text.rerank.servable import RerankServable
    from graph_runtime import Registry


def _register(registry: Registry) -> None:
    from calculators.text.rerank.rerank_calculator_ov import RerankCalculatorOV
    from calculators.text.rerank.resources import RerankResourceInitializer
    from calculators.text.rerank.text_rerank_calculator import TextRerankCalculator

    registry.register_calculator(RerankCalculatorOV)
    registry.register_calculator(TextRerankCalculator)
    registry.register_resource_initializer(RerankResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("RerankCalculatorOV")


def _describe(model: str) -> TaskDescription:
    from calculators.text.rerank.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.text.rerank.task_graph import rerank_graph

    return rerank_graph(RerankTaskOptions(**options), model.models_path)


def _recognizes(path: Path) -> bool:
    return (path / "openvino_model.xml").is_file() and is_cross_encoder(path)


def _recognizes_source(path: Path) -> bool:
    return has_safetensors(path) and is_cross_encoder(path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    # Qwen3-Reranker continues texts; without a cache of them its inputs are those of a classifier.
    return ("--task", "text-generation" if is_language_model(path) else "text-classification")


def _example(model: str) -> tuple[str, dict[str, Any]]:
    body = {"model": model, "query": "Hello", "documents": ["Good morning", "A cat"]}
    return "/v3/rerank", body


def _facts(servable: RerankServable) -> Mapping[str, Any]:
    """Return the length of a query with a document, by vLLM's name."""
    return {"max_model_len": servable.max_tokens}


TASK: Final = Task(
    name="rerank",
    endpoints=(RERANK, SCORE, TOKENIZE, DETOKENIZE),
    register=_register,
    calculators=(
        "RerankCalculatorOV",
        "TextRerankCalculator",
    ),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/text/rerank/README.md",
    options=RerankTaskOptions,
    recognizes=_recognizes,
    recognizes_source=_recognizes_source,
    export_arguments=_export_arguments,
    model_facts=_facts,
)
