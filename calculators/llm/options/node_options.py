"""`NodeOptions`: the checked ``LLMCalculatorOptions`` of a node.

Names, defaults and rules are OpenVINO Model Server's (``llm/servable_initializer.cpp``,
``json_parser.cpp``).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from calculators.kit.checkpoints.gguf import part_files
from calculators.kit.device_options import Properties, Property
from calculators.kit.tasks.nodes import find_model_options, naming_node
from calculators.llm.engine.settings import (
    KINDS,
    NPU,
    CacheEviction,
    EngineSettings,
    PipelineType,
    SparseAttention,
    find_type,
)
from calculators.llm.model_files import find_model, hears, read_voices, sees_images, speaks
from calculators.llm.options.adapter_options import with_adapters
from calculators.llm.options.draft_options import draft_warnings, with_draft
from calculators.llm.options.plugin_config import check_cache, read_plugin_config, read_weights_form
from calculators.llm.parsers.registry import (
    parser_problem,
    reasoning_parser_names,
    tool_parser_names,
)
from graph_runtime import NodePlan, ResourceError, ResourceSettings
from protos import messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

_LONGEST: Final = "MAX_PROMPT_LEN"
_BY_DEVICE: Final = "DEVICE_PROPERTIES"
#: openvino-genai's default.
_DEFAULT_LONGEST: Final = 1024


def read_max_prompt_length(plugin_config: Properties, device: str) -> int | None:
    """Return the tokens of the longest prompt; None if the device has no limit.

    ``MAX_PROMPT_LEN`` is read at the top level, and among the properties of the NPU.

    Raises:
        ResourceError: the value is no length, or there are two, or the device is not an NPU.
    """
    if device != NPU:
        if _LONGEST in plugin_config and NPU not in device:
            shown = f'device is "{device}"' if device else "device is not set"
            raise ResourceError(f"plugin_config: {_LONGEST}: only device NPU has it; {shown}")
        return None
    given: list[int] = []
    for where, properties in (
        ("", plugin_config),
        (f"{_BY_DEVICE}.{NPU}.", _of_npu(plugin_config)),
    ):
        if _LONGEST not in properties:
            continue
        value = properties[_LONGEST]
        if type(value) is not int or value < 1:
            raise ResourceError(
                f"plugin_config: {where}{_LONGEST}: must be a number of tokens from 1 on, "
                f"without quotation marks, not {value!r}"
            )
        given.append(value)
    if len(set(given)) > 1:
        raise ResourceError(
            f"plugin_config: {_LONGEST} is {given[0]}, and {given[1]} in {_BY_DEVICE}.{NPU}; "
            "leave one of them"
        )
    return given[0] if given else _DEFAULT_LONGEST


def with_npu_at_top(
    plugin_config: Properties, pipeline_type: PipelineType, device: str
) -> Properties:
    """Move the properties of the NPU to the top level, where text pipelines look for them.

    Image pipelines look in both places, and pass the top level to the CPU too, so nothing is moved.

    Raises:
        ResourceError: see `read_max_prompt_length`.
    """
    read_max_prompt_length(plugin_config, device)
    of_npu = _of_npu(plugin_config)
    if device != NPU or not KINDS[pipeline_type].properties_at_top or not of_npu:
        return plugin_config
    rest = {**plugin_config}
    by_device = rest.pop(_BY_DEVICE)
    assert isinstance(by_device, dict)
    others = {name: of for name, of in by_device.items() if name != NPU}
    return {**rest, **of_npu, **({_BY_DEVICE: others} if others else {})}


def _of_npu(plugin_config: Properties) -> dict[str, Property]:
    by_device = plugin_config.get(_BY_DEVICE)
    of_npu = by_device.get(NPU) if isinstance(by_device, dict) else None
    return of_npu if isinstance(of_npu, dict) else {}


_DRAFT: Final = "draft_"
#: Options of the shared cache and of the scheduler.
_SCHEDULER: Final = (
    "cache_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    "dynamic_split_fuse",
    "enable_prefix_caching",
    "cache_interval_multiplier",
    "cache_eviction_config",
    "sparse_attention_config",
)


def check_stateful(options: messages.LLMCalculatorOptions, engine: EngineSettings) -> list[str]:
    """Check the options of such a node and return warnings. Other nodes are not checked.

    Raises:
        ResourceError: an option needs continuous batching.
    """
    if engine.kind.batches:
        return []
    pipeline_type, plugin_config = engine.pipeline_type, engine.plugin_config
    rather = (
        ""
        if engine.kind.speaks
        else (f", or use pipeline_type {pipeline_type}_CB, which device NPU does not have")
    )
    for field, _ in options.ListFields():
        if field.name.startswith(_DRAFT):
            raise ResourceError(
                f"{field.name}: pipeline_type {pipeline_type} does not use a draft model; leave it "
                f"out{rather}"
            )
    if plugin_config.get("prompt_lookup"):
        raise ResourceError(
            f"plugin_config: prompt_lookup: pipeline_type {pipeline_type} does not have it; leave "
            f"it out{rather}"
        )
    warnings: list[str] = []
    given = [name for name in _SCHEDULER if options.HasField(name)]
    if given:
        warnings.append(
            f"{', '.join(given)}: no effect with pipeline_type {pipeline_type}, which generates "
            "one request at a time"
        )
    backend = "PA" if engine.kind.speaks else "SDPA"
    if plugin_config.get("ATTENTION_BACKEND", backend) != backend:
        warnings.append(
            f"plugin_config: ATTENTION_BACKEND: pipeline_type {pipeline_type} always uses {backend}"
        )
    return warnings


def find_pipeline_type(asked: str, model: Path, device: str) -> PipelineType:
    """Return the type of a node, by OpenVINO Model Server's rules.

    Source: ``llm/servable_initializer.cpp``.

    Raises:
        ResourceError: the model or the device does not fit the type ``asked`` for.
    """
    is_seeing = sees_images(model)
    alone = find_type(sees_images=is_seeing, batches=False)
    batching = find_type(sees_images=is_seeing, batches=True)
    if asked == "OMNI" or (asked == "AUTO" and speaks(model)):
        _check_omni(asked, model, device, f"{batching} or {alone}")
        return "OMNI"
    if asked == "AUTO":
        # openvino-genai (2026.4) does not take sounds where it batches requests.
        return alone if device == NPU or hears(model) else batching
    if asked == alone:
        return alone
    if asked == batching:
        if device == NPU:
            raise ResourceError(
                f"pipeline_type: {asked} needs continuous batching, which device NPU does not "
                f"have; use {alone} or AUTO"
            )
        return batching
    kind = "sees images" if is_seeing else "only reads text"
    raise ResourceError(
        f"pipeline_type: {asked} does not fit: the model in models_path {kind}; use AUTO, "
        f"{batching} or {alone}"
    )


def _check_omni(asked: str, model: Path, device: str, others: str) -> None:
    if not speaks(model):
        raise ResourceError(
            "pipeline_type: OMNI needs a model that speaks: the one in models_path has no "
            f"openvino_talker_model.xml; use AUTO, {others}"
        )
    if device == NPU:
        raise ResourceError(
            f"pipeline_type: {asked}: this model speaks, which device NPU cannot; use VLM"
        )
    if not read_voices(model):
        raise ResourceError(
            "pipeline_type: OMNI: config.json names no voices of the model "
            "(talker_config.speaker_id); export it again"
        )


def read_cache_eviction(options: messages.LLMCalculatorOptions) -> CacheEviction | None:
    if not options.HasField("cache_eviction_config"):
        return None
    config = options.cache_eviction_config
    crush = config.kv_crush_config
    return CacheEviction(
        start_size=config.start_size,
        recent_size=config.recent_size,
        max_cache_size=config.max_cache_size,
        aggregation_mode="SUM"
        if type(config).AggregationMode.Name(config.aggregation_mode) == "SUM"
        else "NORM_SUM",
        apply_rotation=config.apply_rotation,
        snapkv_window_size=config.snapkv_window_size,
        kv_crush_budget=crush.budget,
        kv_crush_anchor_point_mode=type(crush).AnchorPointMode.Name(crush.anchor_point_mode),
        kv_crush_rng_seed=crush.rng_seed,
    )


def read_sparse_attention(options: messages.LLMCalculatorOptions) -> SparseAttention | None:
    if not options.HasField("sparse_attention_config"):
        return None
    config = options.sparse_attention_config
    message: Message = config
    given = {
        name: getattr(config, name)
        for name in SparseAttention.__struct_fields__
        if name != "mode" and message.HasField(name)
    }
    mode = type(config).SparseAttentionMode.Name(config.mode)
    return msgspec.convert({"mode": mode, **given}, SparseAttention)


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
        return read_options(find_model_options(node, messages.LLMCalculatorOptions), settings)


def read_options(options: messages.LLMCalculatorOptions, settings: ResourceSettings) -> NodeOptions:
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


def _engine_settings(
    options: messages.LLMCalculatorOptions, path: Path
) -> tuple[EngineSettings, str]:
    """Return the engine's settings, and the form of weights, which the engine does not read."""
    plugin_config = read_plugin_config(options.plugin_config)
    weights_form = read_weights_form(plugin_config, path, options.device)
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
        hears=KINDS[pipeline_type].hears and hears(path),
    )
    return settings, weights_form


def _warnings(options: messages.LLMCalculatorOptions) -> tuple[str, ...]:
    found: list[str] = []
    if options.HasField("chat_template_mode") and not options.chat_template_mode:
        found.append("chat_template_mode: MINJA is rendered by Jinja")
    return tuple(found)
