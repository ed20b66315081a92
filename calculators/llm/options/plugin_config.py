"""``plugin_config``, OpenVINO's properties of a language model, and the options of its cache.

Values that would crash the engine are refused; those without effect are reported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from calculators.kit.device_options import Properties, read_json_properties
from calculators.llm.engine.settings import CacheEviction, EngineSettings, SparseAttention
from graph_runtime import ResourceError
from protos import messages

_EVICTION: Final = "cache_eviction_config"
_SPARSE: Final = "sparse_attention_config"
_GB: Final = 2**30
_MOST_MULTIPLIER: Final = 2**32
#: The engine's defaults.
_X_BLOCK: Final = 64
_X_STRIDE: Final = 8


def check_cache(options: messages.LLMCalculatorOptions, engine: EngineSettings) -> list[str]:
    """Check an LLM node's options of cache and scheduler, and return warnings.

    Pipelines that generate one request at a time use none of these options; they are not checked.

    Raises:
        ResourceError: the engine would not load, or would crash at a request.
    """
    if not engine.kind.batches:
        return []
    block = block_tokens(engine.device)
    for name in ("cache_size", "draft_cache_size"):
        _check_size(name, getattr(options, name))
    _check_scheduler(engine)
    warnings: list[str] = []
    if engine.cache_eviction is not None:
        _check_eviction(engine.cache_eviction, block)
        _check_eviction_with_others(engine)
        if options.cache_eviction_config.HasField("snapkv_window_size"):
            warnings += _window_warning(engine)
    if engine.sparse_attention is not None:
        _check_sparse(engine.sparse_attention, engine.device, block)
        warnings += _sparse_warning(engine, engine.sparse_attention)
    return warnings


def block_tokens(device: str) -> int:
    """Return the tokens of a block of the cache; the engine keeps and drops whole blocks.

    Source: openvino.genai ``kv_cache_manager.hpp``. A device that is not set may be the CPU, whose
    blocks are larger.
    """
    return 16 if device.startswith("GPU") else 32


def _check_size(field: str, size: int) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _GB
    if size > memory:
        raise ResourceError(
            f"{field}: {size} means {size} GB, and the machine has {memory}; give less, or 0, "
            "which grows as needed"
        )


def _check_scheduler(engine: EngineSettings) -> None:
    multiplier = engine.cache_interval_multiplier
    if multiplier is not None and multiplier > _MOST_MULTIPLIER:
        raise ResourceError(
            f"cache_interval_multiplier: {multiplier} is too much; it counts blocks of the cache "
            "between two snapshots, as 8"
        )
    if multiplier == 0 and engine.enable_prefix_caching:
        raise ResourceError(
            "cache_interval_multiplier: 0 does not go with enable_prefix_caching: true; give at "
            "least 1, or leave it out"
        )
    batch = engine.max_num_batched_tokens
    if not engine.dynamic_split_fuse and engine.max_num_seqs > batch:
        raise ResourceError(
            f"max_num_seqs: {engine.max_num_seqs} is more than max_num_batched_tokens, {batch}; "
            "with dynamic_split_fuse: false each of the sequences needs a token of a batch"
        )


def _check_eviction(eviction: CacheEviction, block: int) -> None:
    for name in ("start_size", "recent_size", "max_cache_size"):
        _check_blocks(f"{_EVICTION}.{name}", getattr(eviction, name), block, least=block)
    kept = eviction.start_size + eviction.recent_size
    if eviction.max_cache_size <= kept:
        raise ResourceError(
            f"{_EVICTION}.max_cache_size: {eviction.max_cache_size} is not more than start_size "
            f"and recent_size together, {kept}; give at least {kept + block}, so that there are "
            "tokens to choose from"
        )
    if eviction.apply_rotation:
        raise ResourceError(
            f"{_EVICTION}.apply_rotation: true is not served: openvino-genai 2026.4 writes over "
            "memory that is not its own then, and dies; leave it out"
        )


def _check_eviction_with_others(engine: EngineSettings) -> None:
    if engine.enable_prefix_caching:
        raise ResourceError(
            f"enable_prefix_caching: true does not go with {_EVICTION}: the engine dies when it "
            "keeps a sequence of which it has dropped blocks; leave one of them out"
        )


def _window_warning(engine: EngineSettings) -> list[str]:
    assert engine.cache_eviction is not None
    asked = engine.cache_eviction.snapkv_window_size
    if asked == engine.snapkv_window_size:
        return []
    return [
        f"{_EVICTION}.snapkv_window_size: {asked} is taken as 0, all of the prompt counts: with "
        "NORM_SUM the engine would die of prompts a little longer than start_size"
    ]


def _check_sparse(sparse: SparseAttention, device: str, block: int) -> None:
    if sparse.mode == "TRISHAPE":
        for name in ("num_retained_start_tokens_in_cache", "num_retained_recent_tokens_in_cache"):
            value = getattr(sparse, name)
            if value is not None:
                _check_blocks(f"{_SPARSE}.{name}", value, block, least=0)
        return
    if not device.startswith("GPU"):
        raise ResourceError(
            f'{_SPARSE}.mode: XATTENTION is for GPUs, device: "GPU"; on a CPU openvino 2026.4 '
            "computes no numbers with it at times, of which the engine dies; use TRISHAPE"
        )
    threshold = sparse.xattention_threshold
    if threshold is not None and not 0 <= threshold <= 1:
        raise ResourceError(
            f"{_SPARSE}.xattention_threshold: {threshold:g} is not a part of the whole; give a "
            "number from 0 to 1"
        )
    size = _X_BLOCK if sparse.xattention_block_size is None else sparse.xattention_block_size
    _check_blocks(f"{_SPARSE}.xattention_block_size", size, block, least=block)
    stride = _X_STRIDE if sparse.xattention_stride is None else sparse.xattention_stride
    if not stride or size % stride:
        raise ResourceError(
            f"{_SPARSE}.xattention_stride: {stride} does not divide xattention_block_size, {size}; "
            f"give a divisor of it, as {_X_STRIDE}"
        )


def _sparse_warning(engine: EngineSettings, sparse: SparseAttention) -> list[str]:
    if sparse.mode != "TRISHAPE" or engine.dynamic_split_fuse:
        return []
    return [
        f"{_SPARSE}: TRISHAPE has no effect with dynamic_split_fuse: false: it passes over what is "
        "in the cache when a later part of a prompt is read, and there the prompt has one part"
    ]


def _check_blocks(field: str, value: int, block: int, *, least: int) -> None:
    if value % block == 0 and value >= least:
        return
    below = value // block * block
    right = f"{below} or {below + block}" if below >= least else f"at least {least}"
    raise ResourceError(
        f"{field}: {value} tokens are not whole blocks of {block}, of which the cache consists; "
        f"give {right}"
    )


#: graphrt's own property, and its values; see `calculators.kit.checkpoints.packed.OffsetForm`.
WEIGHTS_FORM: Final = "WEIGHTS_FORM"
WEIGHTS_FORMS: Final = ("scaled", "split", "exact")

_BOTH: Final = "KV_CACHE_PRECISION"
_KEYS: Final = "KEY_CACHE_PRECISION"
_VALUES: Final = "VALUE_CACHE_PRECISION"
_GROUPS: Final = ("KEY_CACHE_GROUP_SIZE", "VALUE_CACHE_GROUP_SIZE")
_QUANTIZED: Final = ("u8", "i8", "u4", "i4", "u3")
_PLAIN: Final = ("f16", "bf16", "f32", "dynamic")


def read_plugin_config(
    text: str,
) -> Properties:
    """Read properties as `read_json_properties` does, and check the precision of the cache.

    Raises:
        ResourceError: the text is not a JSON object of properties, a precision is unknown, or two
            precisions cannot go together.
    """
    config = read_json_properties(text)
    _check_cache_precision(config)
    by_device = config.get("DEVICE_PROPERTIES")
    for properties in by_device.values() if isinstance(by_device, dict) else ():
        _check_cache_precision(properties)
    return config


def read_weights_form(config: Properties, model: Path, device: str) -> str:
    """Take the form of a GGUF file's weights out of the properties; "" leaves it to the server.

    With the file's own numbers (``exact``) nothing else rounds either; see `keep_numbers`.

    Raises:
        ResourceError: there is no such form, or the model is not a GGUF file.
    """
    form = config.pop(WEIGHTS_FORM, "")
    if form == "":
        return ""
    if form not in WEIGHTS_FORMS:
        raise ResourceError(
            f"plugin_config: {WEIGHTS_FORM}: must be one of {', '.join(WEIGHTS_FORMS)}, not "
            f"{str(form)[:40]!r}"
        )
    if not model.is_file():
        raise ResourceError(
            f"plugin_config: {WEIGHTS_FORM}: only a GGUF file is converted; leave it out"
        )
    if form == "exact":
        keep_numbers(config, device)
    return str(form)


def keep_numbers(config: Properties, device: str) -> None:
    """Set the properties by which nothing is rounded, unless others are given.

    Inputs of products are not quantized. On a CPU keys and values are kept as they are computed: in
    8 bits the scale of a key depends on its neighbours, so that the tokens after a text change its
    log-probabilities (``bench/gguf.md``).
    """
    config.setdefault("DYNAMIC_QUANTIZATION_GROUP_SIZE", 0)
    if device not in ("", "CPU"):
        return
    # A cache that is not quantized has the precision of the computation.
    if config.setdefault("INFERENCE_PRECISION_HINT", "f32") == "f32" and not _all(config):
        config[_BOTH] = "f32"


def _check_cache_precision(properties: Mapping[str, object]) -> None:
    given = {name: _precision(name, properties[name]) for name in _all(properties)}
    for name in _GROUPS:
        if name in properties:
            _check_group(name, properties[name])
    if _BOTH in given:
        return
    for name, other in ((_KEYS, _VALUES), (_VALUES, _KEYS)):
        if given.get(name) in _QUANTIZED and given.get(other) not in _QUANTIZED:
            raise ResourceError(
                f'plugin_config: {name} is "{given[name]}" and {other} is not quantized; give both '
                f"one of {', '.join(_QUANTIZED)}, or {_BOTH} for both"
            )


def precision_hint(reason: str, properties: Mapping[str, object]) -> str:
    """Return the properties that an error of the library is about but does not name, else ""."""
    given = _all(properties)
    if "cache type" in reason and given:
        shown = ", ".join(f'{name}: "{properties[name]}"' for name in given)
        return (
            f" (plugin_config: {shown}: a cache that is not quantized has the precision of "
            "INFERENCE_PRECISION_HINT)"
        )
    sizes = [name for name in _GROUPS if name in properties]
    if "ConvertPagedAttnInputs" in reason and sizes:
        shown = ", ".join(f"{name}: {properties[name]}" for name in sizes)
        return f" (plugin_config: {shown}: must divide the size of the model's heads; 0 is all)"
    return ""


def _all(properties: Mapping[str, object]) -> list[str]:
    return [name for name in (_BOTH, _KEYS, _VALUES) if name in properties]


def _precision(name: str, value: object) -> str:
    known = (*_QUANTIZED, *_PLAIN)
    if not isinstance(value, str) or value.lower() not in known:
        raise ResourceError(
            f"plugin_config: {name}: {value!r} is not a precision of a cache; known are: "
            f"{', '.join(known)}"
        )
    return value.lower()


def _check_group(name: str, value: object) -> None:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() else -1
    if type(value) is not int or value < 0:
        raise ResourceError(
            f"plugin_config: {name}: must be a whole number, 0 or more: the numbers that share a "
            "scale; 0 is all of a head"
        )
