"""The task ``embeddings``: what servers need to know of embedding models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.model_config import has_safetensors, is_embedding_model
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.text.embeddings.endpoints import DETOKENIZE, EMBED, EMBEDDINGS, TOKENIZE
from calculators.text.embeddings.task_options import EmbeddingsOptions

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.text.embeddings.servable import EmbeddingsServable
    from graph_runtime import Registry


def _register(registry: Registry) -> None:
    from calculators.text.embeddings.embeddings_calculator_ov import EmbeddingsCalculatorOV
    from calculators.text.embeddings.resources import EmbeddingsResourceInitializer
    from calculators.text.embeddings.text_embedding_calculator import TextEmbeddingCalculator

    registry.register_calculator(EmbeddingsCalculatorOV)
    registry.register_calculator(TextEmbeddingCalculator)
    registry.register_resource_initializer(EmbeddingsResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("EmbeddingsCalculatorOV")


def _describe(model: str) -> TaskDescription:
    from calculators.text.embeddings.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.text.embeddings.task_graph import embeddings_graph

    return embeddings_graph(EmbeddingsOptions(**options), model.models_path)


def _recognizes(path: Path) -> bool:
    return (path / "openvino_model.xml").is_file() and is_embedding_model(path)


def _recognizes_source(path: Path) -> bool:
    return has_safetensors(path) and is_embedding_model(path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    return ("--task", "feature-extraction", "--library", "transformers")


def _example(model: str) -> tuple[str, dict[str, Any]]:
    return "/v3/embeddings", {"model": model, "input": "Hello"}


def _facts(servable: EmbeddingsServable) -> Mapping[str, Any]:
    """Return the length of a text, by vLLM's name."""
    return {"max_model_len": servable.max_tokens}


TASK: Final = Task(
    name="embeddings",
    endpoints=(EMBEDDINGS, EMBED, TOKENIZE, DETOKENIZE),
    register=_register,
    calculators=(
        "EmbeddingsCalculatorOV",
        "TextEmbeddingCalculator",
    ),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/text/embeddings/README.md",
    options=EmbeddingsOptions,
    recognizes=_recognizes,
    recognizes_source=_recognizes_source,
    export_arguments=_export_arguments,
    model_facts=_facts,
)
