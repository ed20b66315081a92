"""Options of a node whose pipeline generates one request at a time (LM, VLM)."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.engine.engine_settings import EngineSettings
from graph_runtime import ResourceError

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


def check_stateful(options: Any, engine: EngineSettings) -> list[str]:
    """Check the options of such a node and return warnings. Other nodes are not checked.

    Raises:
        ResourceError: an option needs continuous batching.
    """
    if engine.kind.batches:
        return []
    pipeline_type, plugin_config = engine.pipeline_type, engine.plugin_config
    for field, _ in options.ListFields():
        if field.name.startswith(_DRAFT):
            raise ResourceError(
                f"{field.name}: pipeline_type {pipeline_type} does not use a draft model; leave it "
                f"out, or use pipeline_type {pipeline_type}_CB, which device NPU does not have"
            )
    if plugin_config.get("prompt_lookup"):
        raise ResourceError(
            f"plugin_config: prompt_lookup: pipeline_type {pipeline_type} does not have it; leave "
            f"it out, or use pipeline_type {pipeline_type}_CB, which device NPU does not have"
        )
    warnings: list[str] = []
    given = [name for name in _SCHEDULER if options.HasField(name)]
    if given:
        warnings.append(
            f"{', '.join(given)}: no effect with pipeline_type {pipeline_type}, which generates "
            "one request at a time"
        )
    if plugin_config.get("ATTENTION_BACKEND", "SDPA") != "SDPA":
        warnings.append(
            f"plugin_config: ATTENTION_BACKEND: pipeline_type {pipeline_type} always uses SDPA"
        )
    return warnings
