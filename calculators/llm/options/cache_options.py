"""``cache_eviction_config`` and ``sparse_attention_config`` as settings of the engine."""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.llm.engine.engine_settings import CacheEviction, SparseAttention


def read_cache_eviction(options: Any) -> CacheEviction | None:
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


def read_sparse_attention(options: Any) -> SparseAttention | None:
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
