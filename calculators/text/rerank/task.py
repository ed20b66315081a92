"""The task ``rerank``: describes models that score pairs of texts to servers.

Names of options are OpenVINO Model Server's (``graph_export/rerank_graph_cli_parser.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.settings import declaration
from calculators.kit.settings.declaration import option
from calculators.kit.settings.value_types import count
from calculators.kit.tasks.model_config import continues_texts, is_cross_encoder
from calculators.kit.tasks.task import DeviceOptions, ModelToServe, field, graph_text
from calculators.text.rerank.endpoints import DETOKENIZE, RERANK, SCORE, TOKENIZE
from calculators.text.text_models.encoder_task import INFO, EncoderTask, encoder_graph

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

_GRAPH: Final = encoder_graph(
    "RerankExecutor",
    "RerankCalculatorOV",
    "RERANK_NODE_RESOURCES:rerank_servable",
    "mediapipe.RerankCalculatorOVOptions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTaskOptions(DeviceOptions):
    """The options of the node that scores documents."""

    max_allowed_chunks: int = option(
        10000,
        "documents of a request, and chunks of all its documents; more get 400; default {default}",
        group=declaration.TASK,
        metavar="N",
        reads=count,
    )


class RerankTask(EncoderTask):
    """The task of models that score pairs of texts."""

    name = "rerank"
    endpoints = (RERANK, SCORE, TOKENIZE, DETOKENIZE, INFO)
    docs = "calculators/text/rerank/README.md"
    calculators = ("RerankCalculatorOV", "TextRerankCalculator")
    options = RerankTaskOptions
    converts_gguf = True

    def register(self, registry: Registry) -> None:
        from calculators.text.rerank.nodes import RerankCalculatorOV, TextRerankCalculator
        from calculators.text.rerank.servable import RerankResourceInitializer

        registry.register_calculator(RerankCalculatorOV)
        registry.register_calculator(TextRerankCalculator)
        registry.register_resource_initializer(RerankResourceInitializer())

    def describe(self, model: str) -> TaskDescription:
        from calculators.text.rerank.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        chosen = RerankTaskOptions(**options)
        own = [field("max_allowed_chunks", chosen.max_allowed_chunks)]
        return graph_text(_GRAPH, model.models_path, chosen, own)

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        body = {"model": model, "query": "Hello", "documents": ["Good morning", "A cat"]}
        return "/v3/rerank", body

    def is_model(self, directory: Path) -> bool:
        return is_cross_encoder(directory)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        # Without a cache of texts, Qwen3-Reranker has the inputs of a classifier, although it
        # continues texts.
        return ("--task", "text-generation" if continues_texts(path) else "text-classification")


TASK: Final = RerankTask()
