"""The task ``text_generation``: what servers need to know of language models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.llm.task_options import TextGenerationOptions
from calculators.tasks.task import ErrorForm, Task, TaskEndpoint

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
    docs="docs/llm_options.md",
    options=TextGenerationOptions,
    recognizes=_recognizes,
    is_default=True,
    generates_text=True,
    further_names=_adapters,
)
