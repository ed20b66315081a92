"""`NodeOptions`: the checked ``LLMCalculatorOptions`` of a node.

Names, defaults and rules are OpenVINO Model Server's (``llm/servable_initializer.cpp``,
``json_parser.cpp``).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calculators.kit.checkpoints.gguf import part_files
from calculators.kit.tasks.options import find_model_options, naming_node
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.model_files.model_files import find_model
from calculators.llm.options import OPTIONS_TYPE
from calculators.llm.options.adapter_options import with_adapters
from calculators.llm.options.cache_checks import check_cache
from calculators.llm.options.cache_options import read_cache_eviction, read_sparse_attention
from calculators.llm.options.draft_options import draft_warnings, with_draft
from calculators.llm.options.npu_properties import read_max_prompt_length, with_npu_at_top
from calculators.llm.options.pipeline_type import find_pipeline_type
from calculators.llm.options.plugin_config import read_plugin_config, read_weights_form
from calculators.llm.options.stateful_options import check_stateful
from calculators.llm.parsers.registry import (
    parser_problem,
    reasoning_parser_names,
    tool_parser_names,
)
from graph_runtime import NodePlan, ResourceError, ResourceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The checked options of one node.

    Attributes:
        model_path: an existing directory or GGUF file, absolute.
        model_directory: the directory of the model's other files: ``model_path``, or its folder.
        tool_parser, reasoning_parser: "" is decided by the chat template.
        weights_form: of a GGUF file's weights with offsets; "": the fastest one that fits.
        max_tokens_limit: None is no limit.
        max_prompt_tokens: the longest prompt of an NPU; None if the device has no limit.
        warnings: texts about options without effect.
    """

    model_path: Path
    model_directory: Path
    engine: EngineSettings
    best_of_limit: int
    max_tokens_limit: int | None
    max_prompt_tokens: int | None
    tool_parser: str
    reasoning_parser: str
    enable_tool_guided_generation: bool
    weights_form: str
    warnings: tuple[str, ...]

    @property
    def template_directory(self) -> str:
        """The directory beside a GGUF file, which may have the template that the file lacks."""
        return str(self.model_directory) if self.model_path.is_file() else ""

    def files(self, converted: Path | None = None) -> tuple[Path, ...]:
        """Return everything that loading reads: the model, its adapters and its draft model.

        Args:
            converted: the directory that is read instead of a GGUF file.
        """
        draft = self.engine.draft
        model = [self.model_path if converted is None else converted]
        if self.model_path.is_file() and model == [self.model_path]:
            with contextlib.suppress(ResourceError):  # loading reports it
                model = part_files(self.model_path)
            # The folder of a GGUF file may have any number of others.
            for pattern in ("*.json", "*.jinja"):
                model += self.model_directory.glob(pattern)
        return (
            *model,
            *(Path(adapter.path) for adapter in self.engine.adapters),
            *(() if draft is None else (Path(draft.path),)),
        )


def read_node_options(node: NodePlan, settings: ResourceSettings) -> NodeOptions:
    """Check the options of an LLM node.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return read_options(find_model_options(node, OPTIONS_TYPE), settings)


def read_options(options: Any, settings: ResourceSettings) -> NodeOptions:
    """Check an ``LLMCalculatorOptions`` message.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    path = find_model(options.models_path, settings.directory)
    for name, known in (
        ("tool_parser", tool_parser_names()),
        ("reasoning_parser", reasoning_parser_names()),
    ):
        if problem := parser_problem(getattr(options, name), known):
            raise ResourceError(f"{name}: {problem}")
    for name in ("max_num_batched_tokens", "max_num_seqs", "best_of_limit"):
        if getattr(options, name) == 0:
            raise ResourceError(f"{name}: 0 leaves nothing to run; give at least 1")
    engine, weights_form = _engine_settings(options, path)
    warnings = [*check_stateful(options, engine), *check_cache(options, engine)]
    engine = with_draft(engine, options, settings.directory)
    warnings += draft_warnings(engine, options)
    return NodeOptions(
        model_path=path,
        model_directory=path if path.is_dir() else path.parent,
        engine=with_adapters(engine, options, settings),
        best_of_limit=options.best_of_limit,
        max_tokens_limit=options.max_tokens_limit if options.HasField("max_tokens_limit") else None,
        max_prompt_tokens=read_max_prompt_length(engine.plugin_config, engine.device),
        tool_parser=options.tool_parser,
        reasoning_parser=options.reasoning_parser,
        enable_tool_guided_generation=options.enable_tool_guided_generation,
        weights_form=weights_form,
        warnings=(*warnings, *_warnings(options)),
    )


def _engine_settings(options: Any, path: Path) -> tuple[EngineSettings, str]:
    """Return the engine's settings, and the form of weights, which the engine does not read."""
    plugin_config = read_plugin_config(options.plugin_config)
    weights_form = read_weights_form(plugin_config, path)
    asked = type(options).PipelineType.Name(options.pipeline_type)
    pipeline_type = find_pipeline_type(asked, path, options.device)
    settings = EngineSettings(
        model_path=str(path),
        pipeline_type=pipeline_type,
        device=options.device,
        cache_size=options.cache_size,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_num_seqs=options.max_num_seqs,
        dynamic_split_fuse=options.dynamic_split_fuse,
        enable_prefix_caching=options.enable_prefix_caching,
        cache_interval_multiplier=options.cache_interval_multiplier
        if options.HasField("cache_interval_multiplier")
        else None,
        cache_eviction=read_cache_eviction(options),
        sparse_attention=read_sparse_attention(options),
        plugin_config=with_npu_at_top(plugin_config, pipeline_type, options.device),
    )
    return settings, weights_form


def _warnings(options: Any) -> tuple[str, ...]:
    found: list[str] = []
    if options.HasField("chat_template_mode") and not options.chat_template_mode:
        found.append("chat_template_mode: MINJA is rendered by Jinja")
    return tuple(found)
