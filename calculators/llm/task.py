"""The task ``text_generation``: describes language models to servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.images.media.media_rules import MediaRules
from calculators.kit.tasks.endpoint import PREFIXES
from calculators.kit.tasks.model_config import has_safetensors, is_language_model, read_model_config
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.llm.endpoints import CHAT_COMPLETIONS, ENDPOINTS, describe
from calculators.llm.engine import ENVIRONMENT
from calculators.llm.task_options import LlmSettings, TextGenerationOptions

if TYPE_CHECKING:
    from calculators.kit.model_card import ModelCard
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.llm.servable import LlmServable
    from graph_runtime import NodePlan, Registry, ResourceSettings
    from protos import messages


class TextGenerationTask(Task):
    """The task of language models."""

    name = "text_generation"
    endpoints = ENDPOINTS
    docs = "docs/llm_options.md"
    calculators = (
        "HttpLLMCalculator",
        "GenerationRequestReaderCalculator",
        "LLMCalculator",
        "GenerationResponseWriterCalculator",
    )
    options = TextGenerationOptions
    settings = (LlmSettings, MediaRules)
    model_flags = ("draft_source_model",)
    is_default = True
    generates_text = True
    capabilities = ("completion",)
    processes = (
        ("calculators.llm.engine.process", ENVIRONMENT),
        ("calculators.llm.prompt.process", {}),
    )

    def register(self, registry: Registry) -> None:
        from calculators.llm.http_llm_calculator import HttpLLMCalculator
        from calculators.llm.llm_calculator import (
            GenerationRequestReaderCalculator,
            GenerationResponseWriterCalculator,
            LLMCalculator,
        )
        from calculators.llm.resources import LlmResourceInitializer

        registry.register_calculator(HttpLLMCalculator)
        registry.register_calculator(GenerationRequestReaderCalculator)
        registry.register_calculator(LLMCalculator)
        registry.register_calculator(GenerationResponseWriterCalculator)
        registry.register_resource_initializer(LlmResourceInitializer())

    def serves(self, calculator: str) -> bool:
        return calculator.endswith("LLMCalculator")

    def describe(self, model: str) -> TaskDescription:
        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        from calculators.llm.task_graph import TextGeneration

        return TextGeneration(**options).graph(model)

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        return PREFIXES[0] + CHAT_COMPLETIONS.path, body

    def recognizes(self, path: Path) -> bool:
        from calculators.llm.task_graph import holds_model

        return holds_model(path)

    def recognizes_source(self, path: Path) -> bool:
        return has_safetensors(path) and is_language_model(path)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        reads_images = "vision_config" in read_model_config(path)
        return ("--task", "image-text-to-text" if reads_images else "text-generation-with-past")

    def model_facts(self, resource: LlmServable) -> Mapping[str, Any]:
        """Return the length of prompt and answer, by vLLM's name, the forms of calls and
        reasoning, and what the model reads, by OpenRouter's name."""
        length, parsers = resource.limits.length, resource.parsers
        facts: dict[str, Any] = {} if length is None else {"max_model_len": length}
        # llama.cpp's member, by which its clients find the length.
        context = {} if length is None else {"n_ctx_train": length}
        facts["meta"] = {"n_vocab": len(resource.tokens.pieces), **context}
        facts["tool_parser"], facts["reasoning_parser"] = parsers.names
        most = resource.limits.request
        counts = {"image": most.max_images, "audio": most.max_sounds, "video": most.max_videos}
        facts["input_modalities"] = ["text", *(each for each, count in counts.items() if count)]
        if (form := resource.parsers.made) is not None:
            from calculators.llm.parsers.pattern import described

            facts["form_of_answers"] = described(form)
        return facts

    def model_card(self, resource: LlmServable) -> ModelCard:
        return resource.card

    def first_messages(self, node: NodePlan, settings: ResourceSettings) -> Mapping[str, bytes]:
        from calculators.llm.model_source import first_messages

        return first_messages(node, settings)

    def further_names(self, config: messages.CalculatorGraphConfig) -> Iterable[str]:
        """Yield the name of each LoRA adapter of each node, as the options have it."""
        from graph_runtime import GraphError, find_options, has_options
        from protos import messages

        for node in config.node:
            try:
                if has_options(node, messages.LLMCalculatorOptions):
                    yield from (
                        each.name
                        for each in find_options(node, messages.LLMCalculatorOptions).adapters
                    )
            except GraphError:  # reported when the graph is loaded
                continue


TASK: Final = TextGenerationTask()
