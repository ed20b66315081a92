"""The task ``text_generation``: what servers need to know of language models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.tasks.options import PLUGIN_CONFIG, TARGET_DEVICE
from calculators.tasks.task import ErrorForm, OptionKind, Task, TaskEndpoint, TaskOption

if TYPE_CHECKING:
    from calculators.tasks.operation import TaskDescription
    from graph_runtime import Registry

_CHAT: Final = "chat"


def _register(registry: Registry) -> None:
    from calculators.llm.http_llm_calculator import HttpLLMCalculator
    from calculators.llm.resources import LlmResourceInitializer

    registry.register_calculator(HttpLLMCalculator)
    registry.register_resource_initializer(LlmResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("LLMCalculator")


def _describe(model: str) -> TaskDescription:
    from calculators.llm.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any]) -> str:
    from calculators.llm.task_graph import TextGeneration

    return TextGeneration(**options).graph()


def _recognizes(directory: Path) -> bool:
    from calculators.llm.task_graph import holds_model

    return holds_model(directory)


def _example(model: str) -> tuple[str, dict[str, Any]]:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return "/v3/chat/completions", body


def _adapters(config: Any) -> Iterable[str]:
    from calculators.llm.options.adapter_names import adapter_names

    return adapter_names(config)


#: The names are the fields of `calculators.llm.task_graph.TextGeneration`.
_OPTIONS: Final = (
    TaskOption(
        "max_num_seqs",
        OptionKind.COUNT,
        "N",
        "requests that are generated at a time; default 256",
    ),
    TaskOption(
        "pipeline_type",
        OptionKind.WORD,
        "TYPE",
        "AUTO, LM_CB, LM (one request at a time), VLM_CB or VLM (with images); default AUTO",
        words=("AUTO", "LM_CB", "LM", "VLM_CB", "VLM"),
        unsupported_words=("OMNI",),
    ),
    TaskOption(
        "enable_prefix_caching",
        OptionKind.SWITCH,
        "BOOL",
        "keep the beginnings of prompts; default true",
    ),
    TaskOption(
        "max_num_batched_tokens",
        OptionKind.COUNT,
        "N",
        "tokens in one step of the engine; default 256",
    ),
    TaskOption(
        "cache_size",
        OptionKind.COUNT_OR_ZERO,
        "GB",
        "of the key-value cache; default 0, which grows as needed",
    ),
    TaskOption(
        "dynamic_split_fuse",
        OptionKind.SWITCH,
        "BOOL",
        "long prompts in several steps; default true",
    ),
    TaskOption(
        "reasoning_parser",
        OptionKind.TEXT,
        "NAME",
        "what finds reasoning; by the chat template when unset",
    ),
    TaskOption(
        "tool_parser",
        OptionKind.TEXT,
        "NAME",
        "what finds calls of tools; by the chat template when unset",
    ),
    TaskOption(
        "enable_tool_guided_generation",
        OptionKind.SWITCH,
        "BOOL",
        "make calls of tools by their schemas",
    ),
    TaskOption(
        "cache_interval_multiplier", OptionKind.COUNT, "N", "how much cache is taken at a time"
    ),
    TaskOption(
        "kv_cache_precision",
        OptionKind.WORD,
        "TYPE",
        "u8 takes less memory; default the model's",
        words=("u8", ""),
    ),
    TaskOption("max_prompt_len", OptionKind.COUNT, "N", "tokens of the longest prompt, on an NPU"),
    TaskOption(
        "draft_source_model",
        OptionKind.TEXT,
        "DIR",
        "accepted; the model answers without a draft model yet",
    ),
    TaskOption(
        "model_distribution_policy",
        OptionKind.WORD,
        "POLICY",
        "TENSOR_PARALLEL or PIPELINE_PARALLEL, over several devices",
        words=("TENSOR_PARALLEL", "PIPELINE_PARALLEL", ""),
    ),
    TARGET_DEVICE,
    PLUGIN_CONFIG,
)

TASK: Final = Task(
    name="text_generation",
    endpoints=(
        TaskEndpoint("/chat/completions", streams=True, operation=_CHAT),
        TaskEndpoint("/completions", streams=True, operation="text_completion"),
        TaskEndpoint("/responses", streams=True, operation=_CHAT),
        TaskEndpoint("/messages", streams=True, error_form=ErrorForm.ANTHROPIC, operation=_CHAT),
        TaskEndpoint("/messages/count_tokens", error_form=ErrorForm.ANTHROPIC),
        TaskEndpoint("/tokenize"),
    ),
    register=_register,
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="docs/architecture.md",
    options=_OPTIONS,
    recognizes=_recognizes,
    is_default=True,
    generates_text=True,
    further_names=_adapters,
)
