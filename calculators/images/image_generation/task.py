"""The task ``image_generation``: what servers need to know of image models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from calculators.images.image_generation.model_directory import is_exported, is_source
from calculators.images.image_generation.task_options import (
    ImageGenerationOptions,
    parse_source_loras,
)
from calculators.kit.tasks.endpoint import PREFIXES, TaskEndpoint
from calculators.kit.tasks.task import ModelToServe, Task, TaskError

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

_GENERATIONS: Final = "/images/generations"


def _register(registry: Registry) -> None:
    from calculators.images.image_generation.image_gen_calculator import ImageGenCalculator
    from calculators.images.image_generation.image_generation_calculator import (
        ImageGenerationCalculator,
    )
    from calculators.images.image_generation.resources import ImageGenResourceInitializer

    registry.register_calculator(ImageGenCalculator)
    registry.register_calculator(ImageGenerationCalculator)
    registry.register_resource_initializer(ImageGenResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith(("ImageGenCalculator", "ImageGenerationCalculator"))


def _describe(model: str) -> TaskDescription:
    from calculators.images.image_generation.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.images.image_generation.task_graph import image_generation_graph

    chosen = ImageGenerationOptions(**options)
    if model.path.is_dir():
        # Paths in a graph are relative to its directory, which may be above the model's.
        directory = model.path
        for _ in PurePosixPath(model.models_path).parts:
            directory = directory.parent
        try:
            parse_source_loras(chosen.source_loras).check_files(directory)
        except ValueError as error:
            raise TaskError(str(error)) from None
    return image_generation_graph(chosen, model.models_path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    return ("--task", "text-to-image")


def _example(model: str) -> tuple[str, dict[str, Any]]:
    return PREFIXES[0] + _GENERATIONS, {"model": model, "prompt": "A cat in a hat"}


def _adapters(config: Any) -> Iterable[str]:
    """Yield the name of each LoRA adapter and composite, as the options have it."""
    from calculators.images.image_generation.node_options import OPTIONS_TYPE
    from graph_runtime import GraphError, find_options, has_options

    for node in config.node:
        try:
            if has_options(node, OPTIONS_TYPE):
                options = find_options(node, OPTIONS_TYPE)
                for each in (*options.lora_adapters, *options.composite_lora_adapters):
                    yield each.alias
        except GraphError:  # reported when the graph is loaded
            continue


TASK: Final = Task(
    name="image_generation",
    endpoints=(
        TaskEndpoint(_GENERATIONS, streams=True),
        TaskEndpoint("/images/edits", streams=True, takes_form=True),
        TaskEndpoint("/images/variations", streams=True, takes_form=True),
    ),
    register=_register,
    calculators=(
        "ImageGenCalculator",
        "ImageGenerationCalculator",
    ),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/images/image_generation/README.md",
    options=ImageGenerationOptions,
    recognizes=is_exported,
    recognizes_source=is_source,
    export_arguments=_export_arguments,
    further_names=_adapters,
)
