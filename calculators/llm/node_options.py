"""An LLM node's options, checked: `LLMCalculatorOptions` to what engine, prompts and requests need.

Names, defaults and what is refused are OpenVINO Model Server's (``llm/servable_initializer.cpp``,
``json_parser.cpp``); the words are ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from calculators.llm.engine.engine_settings import (
    CacheEviction,
    EngineSettings,
    PluginValue,
    SparseAttention,
)
from calculators.llm.output.registry import reasoning_parser_names, tool_parser_names
from graph_runtime import NodePlan, ResourceError, ResourceSettings, find_options, has_options

OPTIONS_TYPE: Final = "mediapipe.LLMCalculatorOptions"

_NO_PARSER: Final = "none"

#: Options of the draft model that only mean something with ``draft_models_path``.
_DRAFT: Final = (
    "draft_device",
    "draft_max_num_batched_tokens",
    "draft_cache_size",
    "draft_block_size",
    "draft_max_num_seqs",
    "draft_dynamic_split_fuse",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What the options of one node say.

    Attributes:
        model_path: an existing directory or GGUF file, absolute.
        model_directory: where the model's other files are: ``model_path``, or its folder.
        tool_parser, reasoning_parser: "" is decided by the chat template.
        max_tokens_limit: None is none.
        warnings: what is accepted and has no effect yet, in words.
    """

    model_path: Path
    model_directory: Path
    engine: EngineSettings
    best_of_limit: int
    max_tokens_limit: int | None
    tool_parser: str
    reasoning_parser: str
    enable_tool_guided_generation: bool
    warnings: tuple[str, ...]


def read_node_options(node: NodePlan, settings: ResourceSettings) -> NodeOptions:
    """Check the options of an LLM node.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    try:
        return _read(node, settings)
    except ResourceError as error:
        raise ResourceError(f'node "{node.config.name}": {error}', code=error.code) from None


def _read(node: NodePlan, settings: ResourceSettings) -> NodeOptions:
    if not has_options(node.config, OPTIONS_TYPE):
        raise ResourceError(
            "it has no options; it needs at least node_options: { "
            '[type.googleapis.com/mediapipe.LLMCalculatorOptions]: { models_path: "./" } }'
        )
    options = find_options(node.config, OPTIONS_TYPE)
    path = _model_path(options, settings.directory)
    _check_pipeline_type(options, path)
    _check_parser("tool_parser", options.tool_parser, tool_parser_names())
    _check_parser("reasoning_parser", options.reasoning_parser, reasoning_parser_names())
    for name in ("max_num_batched_tokens", "max_num_seqs", "best_of_limit"):
        if getattr(options, name) == 0:
            raise ResourceError(f"{name}: 0 leaves nothing to run; give at least 1")
    return NodeOptions(
        model_path=path,
        model_directory=path if path.is_dir() else path.parent,
        engine=_engine_settings(options, path, settings.cache_dir),
        best_of_limit=options.best_of_limit,
        max_tokens_limit=options.max_tokens_limit if options.HasField("max_tokens_limit") else None,
        tool_parser=options.tool_parser,
        reasoning_parser=options.reasoning_parser,
        enable_tool_guided_generation=options.enable_tool_guided_generation,
        warnings=_warnings(options),
    )


def _model_path(options: Any, directory: Path) -> Path:
    # Not resolved further than need be: a link may be how models are switched.
    path = Path(directory, options.models_path).absolute()
    shown = options.models_path
    if not path.exists():
        raise ResourceError(
            f'models_path: "{shown}" does not exist; it is relative to the directory of the graph, '
            "or absolute"
        )
    if path.is_file() and path.suffix != ".gguf":
        raise ResourceError(
            f'models_path: "{shown}" is a file and does not end in .gguf; give the directory of an '
            "OpenVINO model, or a GGUF file"
        )
    if path.is_dir():
        _check_model_files(path, shown)
    return path


def _check_model_files(path: Path, shown: str) -> None:
    """Say which file is missing, before the library says less."""
    for name, purpose in (
        ("openvino_model.xml", "the model"),
        ("openvino_model.bin", "the model's weights"),
        ("openvino_tokenizer.xml", "the tokenizer"),
        ("openvino_detokenizer.xml", "the detokenizer"),
    ):
        file = path / name
        if not file.is_file():
            hint = (
                "; convert_tokenizer --with-detokenizer makes it"
                if "token" in name
                else "; optimum-cli export openvino makes it"
            )
            raise ResourceError(f'models_path: "{shown}" has no {name} ({purpose}){hint}')
        if file.stat().st_size == 0:
            raise ResourceError(f'models_path: "{shown}": {name} is empty')
    for name in ("config.json", "tokenizer_config.json"):
        # The library says where it breaks off, and not in which file.
        try:
            json.loads((path / name).read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            raise ResourceError(
                f'models_path: "{shown}": {name} is not JSON, or only a part of it: {error}'
            ) from None


def _check_pipeline_type(options: Any, path: Path) -> None:
    names = type(options).PipelineType
    name = names.Name(options.pipeline_type)
    if name not in ("AUTO", "LM_CB", "LM"):
        raise ResourceError(
            f"pipeline_type: {name} is not served by this version; AUTO and LM_CB are"
        )
    if (path / "openvino_vision_embeddings_model.xml").is_file():
        raise ResourceError(
            "models_path: a model that sees images is not served by this version; text models are"
        )


def _check_parser(field: str, name: str, known: Sequence[str]) -> None:
    if name not in ("", _NO_PARSER, *known):
        raise ResourceError(f'{field}: "{name}" is not known; known are: {", ".join(known)}, none')


def _engine_settings(options: Any, path: Path, cache_dir: str) -> EngineSettings:
    plugin_config = read_plugin_config(options.plugin_config)
    if cache_dir:
        plugin_config.setdefault("CACHE_DIR", cache_dir)
    return EngineSettings(
        model_path=str(path),
        device=options.device,
        cache_size=options.cache_size,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_num_seqs=options.max_num_seqs,
        dynamic_split_fuse=options.dynamic_split_fuse,
        enable_prefix_caching=options.enable_prefix_caching,
        cache_interval_multiplier=options.cache_interval_multiplier
        if options.HasField("cache_interval_multiplier")
        else None,
        cache_eviction=_cache_eviction(options),
        sparse_attention=_sparse_attention(options),
        plugin_config=plugin_config,
    )


def read_plugin_config(
    text: str,
) -> dict[str, PluginValue | dict[str, dict[str, PluginValue]]]:
    """``plugin_config``: a JSON object of strings, numbers and booleans; "" is empty.

    ``DEVICE_PROPERTIES`` may hold an object per device.

    Raises:
        ResourceError: anything else.
    """
    if not text.strip():
        return {}
    try:
        config = json.loads(text)
        # Half of a surrogate pair, written as an escape, is JSON and no text.
        json.dumps(config, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ResourceError(
            f'plugin_config: not JSON: {error}; write it as \'{{"KEY": "value"}}\''
        ) from None
    if not isinstance(config, dict):
        raise ResourceError("plugin_config: must be a JSON object of OpenVINO properties")
    for key, value in config.items():
        if key == "DEVICE_PROPERTIES" and isinstance(value, dict):
            is_fine = all(
                isinstance(properties, dict) and all(map(_is_plugin_value, properties.values()))
                for properties in value.values()
            )
        else:
            is_fine = _is_plugin_value(value)
        if not is_fine:
            raise ResourceError(
                f'plugin_config: the value of "{key}" must be a string, a number or a boolean'
            )
    if isinstance(config.get("NUM_STREAMS"), int):
        config["NUM_STREAMS"] = str(config["NUM_STREAMS"])
    return config


def _is_plugin_value(value: object) -> bool:
    """What the library takes: numbers are 64 bits there."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)


def _cache_eviction(options: Any) -> CacheEviction | None:
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


def _sparse_attention(options: Any) -> SparseAttention | None:
    if not options.HasField("sparse_attention_config"):
        return None
    config = options.sparse_attention_config
    given = {
        name: getattr(config, name)
        for name in SparseAttention.__struct_fields__
        if name != "mode" and config.HasField(name)
    }
    mode = type(config).SparseAttentionMode.Name(config.mode)
    return msgspec.convert({"mode": mode, **given}, SparseAttention)


def _warnings(options: Any) -> tuple[str, ...]:
    found: list[str] = []
    if options.draft_models_path:
        found.append(
            "draft_models_path: speculative decoding is not served by this version; the model "
            "answers without it"
        )
    else:
        given = [name for name in _DRAFT if options.HasField(name)]
        if given:
            raise ResourceError(f"{given[0]}: options of a draft model need draft_models_path")
    if type(options).PipelineType.Name(options.pipeline_type) == "LM":
        found.append("pipeline_type: LM is served with continuous batching by this version")
    if options.device == "NPU":
        found.append("device: on NPU the engine may refuse continuous batching")
    if options.HasField("chat_template_mode") and not options.chat_template_mode:
        found.append("chat_template_mode: MINJA is rendered by Jinja")
    return tuple(found)
