"""What an engine is loaded with: the node's options in openvino-genai's terms."""

from __future__ import annotations

from typing import Literal

import msgspec

PluginValue = str | bool | int | float

#: Of a node, as ``LLMCalculatorOptions`` names them: text, or text and images; one request at a
#: time, or continuous batching (``_CB``).
PipelineType = Literal["LM", "LM_CB", "VLM", "VLM_CB"]


class CacheEviction(msgspec.Struct, frozen=True, kw_only=True):
    """``cache_eviction_config``; sizes in tokens."""

    start_size: int
    recent_size: int
    max_cache_size: int
    aggregation_mode: Literal["SUM", "NORM_SUM"] = "NORM_SUM"
    apply_rotation: bool = False
    snapkv_window_size: int = 8
    kv_crush_budget: int = 0
    kv_crush_anchor_point_mode: str = "RANDOM"
    kv_crush_rng_seed: int = 0


class SparseAttention(msgspec.Struct, frozen=True, kw_only=True):
    """``sparse_attention_config``; None leaves the engine's default."""

    mode: Literal["TRISHAPE", "XATTENTION"] = "TRISHAPE"
    num_last_dense_tokens_in_prefill: int | None = None
    num_retained_start_tokens_in_cache: int | None = None
    num_retained_recent_tokens_in_cache: int | None = None
    xattention_threshold: float | None = None
    xattention_block_size: int | None = None
    xattention_stride: int | None = None


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to load a model.

    Attributes:
        pipeline_type: what runs it.
        model_path: a directory with an IR model and its tokenizer, or a GGUF file.
        device: as OpenVINO names it; "" lets the engine choose.
        cache_size: GB of key-value cache; 0 grows as needed.
        plugin_config: OpenVINO properties; ``DEVICE_PROPERTIES`` holds a mapping per device.
    """

    model_path: str
    pipeline_type: PipelineType = "LM_CB"
    device: str = ""
    cache_size: int = 0
    max_num_batched_tokens: int = 256
    max_num_seqs: int = 256
    dynamic_split_fuse: bool = True
    enable_prefix_caching: bool = False
    cache_interval_multiplier: int | None = None
    cache_eviction: CacheEviction | None = None
    sparse_attention: SparseAttention | None = None
    plugin_config: dict[str, PluginValue | dict[str, dict[str, PluginValue]]] = {}
