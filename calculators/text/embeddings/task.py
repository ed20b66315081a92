"""The task ``embeddings``: describes embedding models to servers.

Names of options are OpenVINO Model Server's (``graph_export/embeddings_graph_cli_parser.cpp``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.settings import declaration
from calculators.kit.settings.declaration import option
from calculators.kit.settings.value_types import one_of, switch
from calculators.kit.tasks.model_config import is_embedding_model
from calculators.kit.tasks.task import DeviceOptions, ModelToServe, field, graph_text
from calculators.text.embeddings.endpoints import (
    BATCH_EMBED_CONTENTS,
    DETOKENIZE,
    EMBED,
    EMBED_CONTENT,
    EMBEDDINGS,
    OLLAMA_EMBED,
    OLLAMA_EMBEDDINGS,
    TOKENIZE,
)
from calculators.text.text_models.encoder_task import INFO, EncoderTask, encoder_graph

if TYPE_CHECKING:
    from calculators.kit.model_card import ModelCard
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.text.embeddings.servable import EmbeddingsServable
    from graph_runtime import Registry

_GRAPH: Final = encoder_graph(
    "EmbeddingsExecutor",
    "EmbeddingsCalculatorOV",
    "EMBEDDINGS_NODE_RESOURCES:embeddings_servable",
    "mediapipe.EmbeddingsCalculatorOVOptions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsTaskOptions(DeviceOptions):
    """The options of the node that computes embeddings; "" leaves a choice to the model's files."""

    pooling: str = option(
        "",
        "CLS, LAST or MEAN of a text's tokens; default as 1_Pooling/config.json says, else CLS",
        group=declaration.TASK,
        metavar="HOW",
        reads=one_of(("CLS", "LAST", "MEAN")),
    )
    normalize: bool = option(
        True,
        "embeddings of length 1; default {default}",
        group=declaration.TASK,
        metavar="BOOL",
        reads=switch,
    )
    truncate: bool = option(
        False,
        "cut off what is too long for the model, which is refused otherwise; default {default}",
        group=declaration.TASK,
        metavar="BOOL",
        reads=switch,
    )


class EmbeddingsTask(EncoderTask):
    """The task of models that embed texts."""

    name = "embeddings"
    endpoints = (
        *(EMBEDDINGS, EMBED, TOKENIZE, DETOKENIZE, INFO),
        *(EMBED_CONTENT, BATCH_EMBED_CONTENTS, OLLAMA_EMBED, OLLAMA_EMBEDDINGS),
    )
    docs = "calculators/text/embeddings/README.md"
    calculators = ("EmbeddingsCalculatorOV", "TextEmbeddingCalculator")
    options = EmbeddingsTaskOptions
    capabilities = ("embedding",)
    converts_gguf = True

    def register(self, registry: Registry) -> None:
        from calculators.text.embeddings.nodes import (
            EmbeddingsCalculatorOV,
            TextEmbeddingCalculator,
        )
        from calculators.text.embeddings.servable import EmbeddingsResourceInitializer

        registry.register_calculator(EmbeddingsCalculatorOV)
        registry.register_calculator(TextEmbeddingCalculator)
        registry.register_resource_initializer(EmbeddingsResourceInitializer())

    def model_card(self, resource: EmbeddingsServable) -> ModelCard:
        return resource.card

    def describe(self, model: str) -> TaskDescription:
        from calculators.text.embeddings.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        chosen = EmbeddingsTaskOptions(**options)
        own = [
            field("normalize_embeddings", json.dumps(chosen.normalize)),
            field("truncate", json.dumps(chosen.truncate)),
        ]
        if chosen.pooling:
            own.append(field("pooling", chosen.pooling))
        return graph_text(_GRAPH, model.models_path, chosen, own)

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        return "/v3/embeddings", {"model": model, "input": "Hello"}

    def is_model(self, directory: Path) -> bool:
        return is_embedding_model(directory)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        return ("--task", "feature-extraction", "--library", "transformers")


TASK: Final = EmbeddingsTask()
