"""The task ``image_generation``: describes models that draw to servers.

Names of options are OpenVINO Model Server's
(``graph_export/image_generation_graph_cli_parser.cpp``), and so is the graph's form
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from calculators.images.image_generation.image_settings import ImageSettings
from calculators.images.image_generation.lora_names import ALIAS_RULE, ENDING, is_alias
from calculators.images.image_generation.model_directory import is_exported, is_source
from calculators.images.image_generation.sizes import SIDE_STEP, Size, parse_size
from calculators.kit.settings import declaration
from calculators.kit.settings.declaration import option
from calculators.kit.settings.value_types import count
from calculators.kit.tasks.endpoint import PREFIXES, TaskEndpoint
from calculators.kit.tasks.task import (
    DeviceOptions,
    ModelToServe,
    Task,
    TaskError,
    field,
    graph_text,
    quoted,
)

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry
    from protos import messages


def read_size(text: str) -> str:
    """Read one size."""
    _drawable(text)
    return text


def read_sizes(text: str) -> str:
    """Read sizes with spaces between them."""
    words = text.split()
    if not words:
        raise argparse.ArgumentTypeError('sizes are needed, as in "512x512 512x768"')
    for word in words:
        _drawable(word)
    if len(set(words)) < len(words):
        raise argparse.ArgumentTypeError(f"Duplicate resolutions found: {text!r}")
    return " ".join(words)


def _drawable(text: str) -> None:
    size: Size | None
    try:
        size = parse_size(text)
    except ValueError:
        size = None
    if size is None:
        raise argparse.ArgumentTypeError(
            f"Invalid resolution format. Expected WxH, e.g., 1024x1024: {text!r}"
        )
    if not size.is_drawable:
        raise argparse.ArgumentTypeError(f"the sides are multiples of {SIDE_STEP}: {text!r}")


def scale(text: str) -> float:
    """Read a number from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"a number from 0 on is needed: {text!r}")
    return number


def source_loras(text: str) -> str:
    """Read adapters, ``alias=SOURCE[:alpha]``, and composites, ``alias=@a:0.7+@b``, with commas.

    A source is a file's path, or ``org/name[@file]`` of a hub.
    """
    try:
        parse_source_loras(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


@dataclass(frozen=True, slots=True)
class SourceLoras:
    """Adapters on the command line.

    Attributes:
        adapters: file and alpha by alias; the file is a path, or ``org/name[@file]`` of a hub.
        composites: alphas by alias of the adapter, by alias of the composite.
        entries: the words of each adapter, by alias.
    """

    adapters: dict[str, tuple[str, float]]
    composites: dict[str, dict[str, float]]
    entries: dict[str, str]

    def hub_files(self) -> list[str]:
        """Return the files of a hub, each once."""
        return [
            each
            for each in dict.fromkeys(path for path, _ in self.adapters.values())
            if is_hub_file(each)
        ]

    def check_files(self, directory: Path) -> None:
        """Check that the files exist; ``directory``: the graph's, to which paths are relative.

        Raises:
            ValueError: one does not; the text is OpenVINO Model Server's.
        """
        for alias, (path, _) in self.adapters.items():
            if not is_hub_file(path) and not (directory / path).is_file():
                raise ValueError(
                    f"Local LoRA file does not exist: '{path}' in --source_loras entry: "
                    f"'{self.entries[alias]}'"
                )


def parse_source_loras(text: str) -> SourceLoras:
    """Read the value of ``--source_loras``.

    Raises:
        ValueError: the texts are OpenVINO Model Server's.
    """
    found = SourceLoras({}, {}, {})
    for entry in filter(None, (word.strip() for word in text.split(","))):
        alias, equals, source = entry.partition("=")
        if not equals or not source:
            raise ValueError(
                f"Missing alias in --source_loras entry: '{entry}'. Expected format: alias=source"
            )
        if not is_alias(alias):
            raise ValueError(
                f"Invalid LoRA alias '{alias}' in --source_loras entry: '{entry}'. {ALIAS_RULE}"
            )
        if alias in found.adapters or alias in found.composites:
            raise ValueError(f"the alias '{alias}' is given twice in --source_loras")
        if source.startswith("@"):
            found.composites[alias] = dict(_component(part, entry) for part in source.split("+"))
        else:
            found.adapters[alias] = _source(source, entry)
            found.entries[alias] = entry
    for alias, parts in found.composites.items():
        for part in parts:
            if part not in found.adapters:
                raise ValueError(
                    f"Composite LoRA references unknown adapter '{part}' in entry: '{alias}'"
                )
    return found


#: A repository of a hub, and a file in it.
_HUB_FILE: Final = re.compile(r"[\w.-]+/[\w.-]+(?:@.+)?")
#: An address of a file of a hub.
_ADDRESS: Final = re.compile(
    r"https?://(?:hf\.co|huggingface\.co)/([\w.-]+/[\w.-]+)/resolve/main/(.+)"
)


def is_hub_file(source: str) -> bool:
    """Return True if a source is a file of a hub, ``org/name[@file]``, and no path."""
    is_path = source.endswith(ENDING) and "@" not in source
    return not is_path and source[0] not in "./~" and bool(_HUB_FILE.fullmatch(source))


def _source(source: str, entry: str) -> tuple[str, float]:
    path, alpha = source, "1"
    head, colon, tail = source.rpartition(":")
    if colon and len(head) > 1 and not tail.startswith("//") and not source.endswith(ENDING):
        path, alpha = head, tail
    if (address := _ADDRESS.fullmatch(path)) is not None:
        path = f"{address[1]}@{address[2]}"
    if "://" in path:
        raise ValueError(
            f"adapters are downloaded from a hub only, as org/name@file{ENDING}, in --source_loras "
            f"entry: '{entry}'"
        )
    if is_hub_file(path):
        repository, at, file = path.partition("@")
        # Addresses and OpenVINO Model Server's documents have spaces as %20.
        file = unquote(file)
        path = f"{repository}{at}{file}"
    if not path.endswith(ENDING) and (not is_hub_file(path) or "@" in path):
        raise ValueError(
            f"a {ENDING} file is needed in --source_loras entry: '{entry}': a path, or org/name of "
            f"a hub, or org/name@file"
        )
    return path, _alpha(alpha, entry)


def _component(part: str, entry: str) -> tuple[str, float]:
    alias, colon, alpha = part.strip().partition(":")
    if not alias.startswith("@") or len(alias) == 1:
        raise ValueError(f"components are written @alias:alpha, in --source_loras entry: '{entry}'")
    return alias[1:], _alpha(alpha if colon else "1", entry)


def _alpha(text: str, entry: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"Invalid alpha value '{text}' in --source_loras entry: '{entry}'")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGenerationOptions(DeviceOptions):
    """The options of the node that draws; None and "" leave a choice to the model."""

    resolution: str = option(
        "",
        "the only sizes, with spaces; with a single one the model is compiled for it",
        group=declaration.TASK,
        metavar="SIZES",
        reads=read_sizes,
    )
    max_resolution: str = option(
        "",
        "the longest sides; default 4096x4096",
        group=declaration.TASK,
        metavar="WxH",
        reads=read_size,
    )
    default_resolution: str = option(
        "",
        "the size of images whose request gives none; default the model's",
        group=declaration.TASK,
        metavar="WxH",
        reads=read_size,
    )
    num_images_per_prompt: int | None = option(
        None,
        "the images of every request; needs a single resolution",
        group=declaration.TASK,
        metavar="N",
        reads=count,
    )
    guidance_scale: float | None = option(
        None,
        "the guidance scale of every request; needs a single resolution",
        group=declaration.TASK,
        metavar="X",
        reads=scale,
    )
    max_num_images_per_prompt: int | None = option(
        None,
        "the most images of a request; default 10",
        group=declaration.TASK,
        metavar="N",
        reads=count,
    )
    default_num_inference_steps: int | None = option(
        None,
        "steps of denoising where a request gives none; default 50",
        group=declaration.TASK,
        metavar="N",
        reads=count,
    )
    max_num_inference_steps: int | None = option(
        None,
        "the most steps of a request; default 100",
        group=declaration.TASK,
        metavar="N",
        reads=count,
    )
    source_loras: str = option(
        "",
        "LoRA adapters, alias=FILE.safetensors[:alpha], or alias=org/name[@FILE][:alpha] of a hub, "
        "and mixtures of them, alias=@a:0.7+@b, with commas; each alias is a model's name in "
        "requests",
        group=declaration.TASK,
        metavar="LORAS",
        reads=source_loras,
    )


_GENERATIONS: Final = "/images/generations"

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "ImageGenExecutor"
  calculator: "ImageGenCalculator"
  input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.ImageGenCalculatorOptions] {
%s
    }
  }
}
"""
#: Fields that have the names of flags, in OpenVINO Model Server's order.
_FIELDS: Final = (
    "resolution",
    "num_images_per_prompt",
    "guidance_scale",
    "max_resolution",
    "default_resolution",
    "max_num_images_per_prompt",
    "default_num_inference_steps",
    "max_num_inference_steps",
)


class ImageGenerationTask(Task):
    """The task of models that draw."""

    name = "image_generation"
    endpoints = (
        TaskEndpoint(_GENERATIONS, streams=True),
        TaskEndpoint("/images/edits", streams=True, takes_form=True),
        TaskEndpoint("/images/variations", streams=True, takes_form=True),
    )
    docs = "calculators/images/image_generation/README.md"
    calculators = ("ImageGenCalculator", "ImageGenerationCalculator")
    options = ImageGenerationOptions
    settings = (ImageSettings,)

    def register(self, registry: Registry) -> None:
        from calculators.images.image_generation.nodes import (
            ImageGenCalculator,
            ImageGenerationCalculator,
        )
        from calculators.images.image_generation.servable import ImageGenResourceInitializer

        registry.register_calculator(ImageGenCalculator)
        registry.register_calculator(ImageGenerationCalculator)
        registry.register_resource_initializer(ImageGenResourceInitializer())

    def serves(self, calculator: str) -> bool:
        return calculator.endswith(self.calculators)

    def describe(self, model: str) -> TaskDescription:
        from calculators.images.image_generation.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
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
        return _graph(chosen, model.models_path)

    def hub_files(self, options: Mapping[str, Any]) -> Iterable[str]:
        return parse_source_loras(options.get("source_loras", "")).hub_files()

    def with_files(self, options: Mapping[str, Any], files: Mapping[str, str]) -> Mapping[str, Any]:
        loras = parse_source_loras(options.get("source_loras", ""))
        words = [
            f"{alias}={files.get(path, path)}:{alpha:g}"
            for alias, (path, alpha) in loras.adapters.items()
        ]
        words += [
            f"{alias}={'+'.join(f'@{part}:{alpha:g}' for part, alpha in parts.items())}"
            for alias, parts in loras.composites.items()
        ]
        return {**options, "source_loras": ",".join(words)} if words else options

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        return PREFIXES[0] + _GENERATIONS, {"model": model, "prompt": "A cat in a hat"}

    def recognizes(self, path: Path) -> bool:
        return is_exported(path)

    def recognizes_source(self, path: Path) -> bool:
        return is_source(path)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        return ("--task", "text-to-image")

    def further_names(self, config: messages.CalculatorGraphConfig) -> Iterable[str]:
        """Yield the name of each LoRA adapter and composite, as the options have it."""
        from graph_runtime import GraphError, find_options, has_options
        from protos import messages

        for node in config.node:
            try:
                if has_options(node, messages.ImageGenCalculatorOptions):
                    options = find_options(node, messages.ImageGenCalculatorOptions)
                    yield from (each.alias for each in options.lora_adapters)
                    yield from (each.alias for each in options.composite_lora_adapters)
            except GraphError:  # reported when the graph is loaded
                continue


def _graph(options: ImageGenerationOptions, models_path: str) -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is not a JSON object of OpenVINO properties.
    """
    own = []
    for name in _FIELDS:
        value: Any = getattr(options, name)
        if value not in ("", None):
            own.append(field(name, quoted(value) if isinstance(value, str) else value))
    loras = parse_source_loras(options.source_loras)
    for alias, (path, alpha) in loras.adapters.items():
        own.append(
            f"lora_adapters {{ alias: {quoted(alias)} path: {quoted(path)} alpha: {alpha:g} }}"
        )
    for alias, parts in loras.composites.items():
        components = " ".join(
            f"components {{ adapter_alias: {quoted(part)} alpha: {alpha:g} }}"
            for part, alpha in parts.items()
        )
        own.append(f"composite_lora_adapters {{ alias: {quoted(alias)} {components} }}")
    return graph_text(_GRAPH, models_path, options, own, device_field="device")


TASK: Final = ImageGenerationTask()
