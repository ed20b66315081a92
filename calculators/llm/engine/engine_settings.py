"""`EngineSettings`: the node's options that load an engine, in openvino-genai's terms."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from calculators.llm.engine.pipeline_kind import KINDS, PipelineKind, PipelineType

#: A device whose plugin has neither continuous batching nor beam search.
NPU: Final = "NPU"

PluginValue = str | bool | int | float

#: The way tokens are generated: one at a time, or several that are proposed and then checked at
#: once; by a draft model, by one that reads layers of the main model (EAGLE-3), or by the prompt.
DecodingMode = Literal["standard", "speculative", "eagle3", "prompt_lookup"]


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


class DraftModel(msgspec.Struct, frozen=True, kw_only=True):
    """``draft_models_path`` and its options.

    Attributes:
        path: a directory with an IR model and the main model's tokenizer.
        device: "" is the main model's.
        cache_size: GB of a cache of its own; 0 grows as needed.
        is_eagle3: the draft model reads layers of the main model.
    """

    path: str
    device: str = ""
    cache_size: int = 0
    max_num_seqs: int = 256
    is_eagle3: bool = False


class AdapterFile(msgspec.Struct, frozen=True, kw_only=True):
    """A LoRA adapter.

    Attributes:
        path: a safetensors file.
        alpha: the factor of the adapter's product, the division by its rank included.
    """

    name: str
    path: str
    alpha: float


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options that load a model.

    Attributes:
        pipeline_type: the pipeline that runs it.
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
    adapters: tuple[AdapterFile, ...] = ()
    draft: DraftModel | None = None

    @property
    def kind(self) -> PipelineKind:
        """The capabilities of a pipeline of this type."""
        return KINDS[self.pipeline_type]

    @property
    def has_beams(self) -> bool:
        """True if the pipeline, with these settings, can search with beams."""
        return (
            self.kind.has_beams
            and self.device != NPU
            and self.decoding_mode == "standard"
            and self.cache_eviction is None
        )

    @property
    def snapkv_window_size(self) -> int:
        """The window of cache eviction with which openvino-genai 2026.4 does not crash.

        The library assumes that a prompt's last tokens all lie behind ``start_size``, and crashes
        on a prompt that ends just there. With 0, the whole prompt, it makes no such assumption.
        """
        eviction = self.cache_eviction
        if eviction is None:
            return 0
        window = eviction.snapkv_window_size
        return 0 if eviction.aggregation_mode == "NORM_SUM" and window > 1 else window

    @property
    def decoding_mode(self) -> DecodingMode:
        """The way tokens are generated; ``plugin_config`` may ask for ``prompt_lookup``."""
        if self.draft is not None:
            return "eagle3" if self.draft.is_eagle3 else "speculative"
        return "prompt_lookup" if self.plugin_config.get("prompt_lookup") else "standard"
