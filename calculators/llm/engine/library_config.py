"""Conversions of our settings to openvino-genai's types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai

from calculators.images.media.image import Image
from calculators.kit.child_process.library_errors import library_reason
from calculators.llm.engine.compile_probe import structured_output
from calculators.llm.engine.engine_settings import CacheEviction, EngineSettings, SparseAttention
from calculators.llm.engine.generation_settings import GenerationSettings

#: The CPU plugin compiles kernels for each number of tokens in a step, and keeps 5,000 of each
#: kind: 350 MiB for the example model. Compiling all kernels of a step again takes 5 ms.
_MOST_KERNELS = 64

#: Settings that `generation_config` converts; all others have the library's own names.
_SET_APART = frozenset(
    {
        "stop_strings",
        "stop_token_ids",
        "logprobs",
        "grammar",
        "adapter",
        "is_shortened",
        "num_assistant_tokens",
        "assistant_confidence_threshold",
        "max_ngram_size",
    }
)
_SAME_NAME = tuple(name for name in GenerationSettings.__struct_fields__ if name not in _SET_APART)


def generation_config(settings: GenerationSettings) -> Any:
    """Convert settings; the library takes missing end tokens from the model's own config."""
    config = genai.GenerationConfig()
    config.apply_chat_template = False
    for name in _SAME_NAME:
        value = getattr(settings, name)
        if value is not None:
            setattr(config, name, value)
    if settings.stop_strings:
        config.stop_strings = set(settings.stop_strings)
        # All tokens are needed: usage counts them, and a stream may have sent some already.
        config.include_stop_str_in_output = True
    if settings.stop_token_ids is not None:
        config.stop_token_ids = set(settings.stop_token_ids)
    if settings.logprobs:
        config.logprobs = 1
    _set_candidates(config, settings)
    if settings.grammar is not None:
        config.structured_output_config = structured_output(settings.grammar)
    return config


def end_with_form(config: Any, model: Any, tokenizer: Any) -> None:
    """Let a generation end with the token that ends a form.

    The library allows the tokenizer's end token there, and ends the generation with those of the
    config only: without it the answer would go on behind its form.

    Args:
        config: the generation's.
        model: the model's own ``GenerationConfig``.
    """
    ends = set(config.stop_token_ids or model.stop_token_ids)
    config.stop_token_ids = ends | {tokenizer.get_eos_token_id()}


def _set_candidates(config: Any, settings: GenerationSettings) -> None:
    """Set how many tokens are proposed at a time, and their source."""
    if settings.num_assistant_tokens:
        config.num_assistant_tokens = settings.num_assistant_tokens
        # With a draft model this only makes the main model's own samples count. The library's way
        # to accept the draft model's samples (2026.4) takes the sample after a rejected one from
        # the wrong place, and generates nonsense.
        config.max_ngram_size = settings.max_ngram_size or 1
    elif settings.assistant_confidence_threshold:
        config.assistant_confidence_threshold = settings.assistant_confidence_threshold
        # Without it the library does not know the draft model's confidence.
        config.logprobs = 1


def device_properties(device: str) -> dict[str, Any]:
    """Return the properties of a device that ``plugin_config`` may override."""
    return {"CPU_RUNTIME_CACHE_CAPACITY": _MOST_KERNELS} if device == "CPU" else {}


def draft_model(settings: EngineSettings) -> dict[str, Any]:
    """Return the properties that add the draft model, if there is one; loads it.

    Raises:
        RuntimeError: the option that is wrong, and the library's reason.
    """
    draft = settings.draft
    if draft is None:
        return {}
    config = scheduler_config(settings)
    config.cache_size = draft.cache_size
    config.max_num_seqs = draft.max_num_seqs
    try:
        if draft.device:
            openvino.Core().get_property(draft.device.partition(":")[0], "SUPPORTED_PROPERTIES")
    except RuntimeError as error:
        raise RuntimeError(f"draft_device: {library_reason(error)}") from None
    try:
        return {"draft_model": genai.draft_model(draft.path, draft.device, scheduler_config=config)}
    except RuntimeError as error:
        raise RuntimeError(f"draft_models_path: {library_reason(error)}") from None


def model_config(model_path: str, tokenizer: Any) -> Any:
    """Read the model's ``generation_config.json``, or a default, always with an end token."""
    file = Path(model_path) / "generation_config.json"
    config = genai.GenerationConfig(str(file)) if file.is_file() else genai.GenerationConfig()
    if not config.stop_token_ids and tokenizer.get_eos_token_id() >= 0:
        config.set_eos_token_id(tokenizer.get_eos_token_id())
    return config


def one_token(settings: EngineSettings) -> GenerationSettings:
    """Return the settings of a request for one token, to try a pipeline."""
    mode = settings.decoding_mode
    return GenerationSettings(
        max_new_tokens=1,
        ignore_eos=True,
        num_assistant_tokens=0 if mode == "standard" else 1,
        max_ngram_size=1 if mode == "prompt_lookup" else 0,
    )


def image_tensor(image: Image) -> Any:
    """Convert an image to a tensor for the library's pipelines; uint8, (1, height, width, 3)."""
    pixels = np.frombuffer(image.pixels, dtype=np.uint8)
    return openvino.Tensor(pixels.reshape(1, image.height, image.width, 3))


def scheduler_config(settings: EngineSettings) -> Any:
    """Convert the settings of batching and cache to a ``SchedulerConfig``."""
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
        config.cache_eviction_config = _cache_eviction(
            settings.cache_eviction, settings.snapkv_window_size
        )
    if settings.sparse_attention is not None:
        config.use_sparse_attention = True
        config.sparse_attention_config = _sparse_attention(settings.sparse_attention)
    return config


def _cache_eviction(settings: CacheEviction, snapkv_window_size: int) -> Any:
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
        snapkv_window_size,
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
    """Return the discrete GPU with most memory, else another GPU, else the CPU; never an NPU."""
    core = openvino.Core()
    gpus = [str(device) for device in core.available_devices if device.startswith("GPU")]
    if not gpus:
        return "CPU"

    def worth(device: str) -> tuple[bool, int]:
        kind = str(core.get_property(device, "DEVICE_TYPE"))
        memory = int(core.get_property(device, "GPU_DEVICE_TOTAL_MEM_SIZE"))
        return "DISCRETE" in kind.upper(), memory

    return max(gpus, key=worth)
