"""Our settings in the forms of openvino-genai."""

from __future__ import annotations

from typing import Any

import openvino
import openvino_genai as genai

from calculators.llm.engine.engine_settings import CacheEviction, EngineSettings, SparseAttention
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.structured.tiny_pipeline import structured_output

_DIRECT = (
    "ignore_eos",
    "min_new_tokens",
    "do_sample",
    "num_beams",
    "num_return_sequences",
    "echo",
)
_IF_GIVEN = (
    "max_new_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "rng_seed",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "length_penalty",
)


def generation_config(settings: GenerationSettings) -> Any:
    """The library's form. What it lacks of end tokens it takes from the model's own config."""
    config = genai.GenerationConfig()
    config.apply_chat_template = False
    for name in _DIRECT:
        setattr(config, name, getattr(settings, name))
    for name in _IF_GIVEN:
        value = getattr(settings, name)
        if value is not None:
            setattr(config, name, value)
    if settings.stop_strings:
        config.stop_strings = set(settings.stop_strings)
        # All tokens are wanted, for counting and because a stream has sent some of them already.
        config.include_stop_str_in_output = True
    if settings.stop_token_ids is not None:
        config.stop_token_ids = set(settings.stop_token_ids)
    if settings.logprobs:
        config.logprobs = 1
    if settings.grammar is not None:
        config.structured_output_config = structured_output(settings.grammar)
    return config


def scheduler_config(settings: EngineSettings) -> Any:
    config = genai.SchedulerConfig()
    config.cache_size = settings.cache_size
    config.max_num_batched_tokens = settings.max_num_batched_tokens
    config.max_num_seqs = settings.max_num_seqs
    config.dynamic_split_fuse = settings.dynamic_split_fuse
    config.enable_prefix_caching = settings.enable_prefix_caching
    if settings.cache_interval_multiplier is not None:
        config.cache_interval_multiplier = settings.cache_interval_multiplier
    if settings.cache_eviction is not None:
        config.use_cache_eviction = True
        config.cache_eviction_config = _cache_eviction(settings.cache_eviction)
    if settings.sparse_attention is not None:
        config.use_sparse_attention = True
        config.sparse_attention_config = _sparse_attention(settings.sparse_attention)
    return config


def _cache_eviction(settings: CacheEviction) -> Any:
    crush = genai.KVCrushConfig(
        settings.kv_crush_budget,
        getattr(genai.KVCrushAnchorPointMode, settings.kv_crush_anchor_point_mode),
        settings.kv_crush_rng_seed,
    )
    return genai.CacheEvictionConfig(
        settings.start_size,
        settings.recent_size,
        settings.max_cache_size,
        getattr(genai.AggregationMode, settings.aggregation_mode),
        settings.apply_rotation,
        settings.snapkv_window_size,
        crush,
    )


def _sparse_attention(settings: SparseAttention) -> Any:
    given = {
        name: getattr(settings, name)
        for name in settings.__struct_fields__
        if name != "mode" and getattr(settings, name) is not None
    }
    mode = getattr(genai.SparseAttentionMode, settings.mode)
    return genai.SparseAttentionConfig(mode=mode, **given)


def recommended_device() -> str:
    """The discrete GPU with most memory, else another GPU, else the CPU; never an NPU."""
    core = openvino.Core()
    gpus = [str(device) for device in core.available_devices if device.startswith("GPU")]
    if not gpus:
        return "CPU"

    def worth(device: str) -> tuple[bool, int]:
        kind = str(core.get_property(device, "DEVICE_TYPE"))
        memory = int(core.get_property(device, "GPU_DEVICE_TOTAL_MEM_SIZE"))
        return "DISCRETE" in kind.upper(), memory

    return max(gpus, key=worth)
