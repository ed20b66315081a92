"""Conversions of our settings to openvino-genai's types: sampling, schedulers, drafts, adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai
from numpy.typing import NDArray

from calculators.images.media.image import Image
from calculators.kit.checkpoints.safetensors_header import StoredTensor, read_header
from calculators.kit.child_process.library_errors import library_reason
from calculators.llm.engine.constrained_decoding import structured_output
from calculators.llm.engine.settings import (
    AdapterFile,
    CacheEviction,
    EngineSettings,
    GenerationSettings,
    SparseAttention,
)

_UNSIGNED: Final = {2: np.uint16, 4: np.uint32}
_A: Final = ".lora_A.weight"
#: Alignment of the first tensor, in bytes.
_ALIGNMENT: Final = 8

Tensors = dict[str, NDArray[Any]]


class Adapters:
    """The adapters of one pipeline: properties to open it with, and the config of each adapter.

    All adapters get the same layers and the same rank, padded with zeros, and "no adapter" is an
    adapter of zeros. So no shape ever changes: where a layer goes from an adapter's rank to none
    and back, a CPU can compute nonsense from then on (openvino 2026.4).
    """

    def __init__(self, files: Sequence[AdapterFile]) -> None:
        """Read the files.

        Raises:
            NotSafetensors, OSError: a file has changed since it was checked.
            RuntimeError: the library refuses an adapter.
        """
        self.names = tuple(file.name for file in files)
        self.properties: dict[str, Any] = {}
        self._configs: dict[str, Any] = {}
        if not files:
            return
        headers = [read_header(Path(file.path)) for file in files]
        form = _common_form(headers)
        wanted = next(iter(form.values())).dtype
        # "No adapter" is an adapter of zeros: taking one away changes shapes, after which results
        # may be wrong (decision 0024).
        none = genai.Adapter(_as_safetensors(form, {}))
        self.properties["adapters"] = self._configs[""] = genai.AdapterConfig([none])
        for file, header in zip(files, headers, strict=True):
            tensors = _read(Path(file.path), header, wanted)
            adapter = genai.Adapter(_as_safetensors(form, tensors))
            self._configs[file.name] = genai.AdapterConfig([(adapter, file.alpha)])

    def apply_to(self, config: Any, name: str) -> None:
        """Set the adapter of a ``GenerationConfig`` by its name; "" is none."""
        if self._configs:
            config.adapters = self._configs[name]


def _common_form(headers: Sequence[Mapping[str, StoredTensor]]) -> dict[str, StoredTensor]:
    """Return all tensors of all files, at the highest rank and in a type that holds every value."""
    rank = max(each.shape[0] for header in headers for n, each in header.items() if n.endswith(_A))
    types = {each.dtype for header in headers for each in header.values()}
    # Neither F16 nor BF16 holds every value of the other.
    dtype = types.pop() if len(types) == 1 else "F32"
    found: dict[str, StoredTensor] = {}
    for header in headers:
        for name, each in header.items():
            shape = (rank, each.shape[1]) if name.endswith(_A) else (each.shape[0], rank)
            found[name] = StoredTensor(dtype, shape, 0)
    return dict(sorted(found.items()))


def _read(path: Path, header: Mapping[str, StoredTensor], wanted: str) -> Tensors:
    """Read a file's tensors as the bits of numbers of type ``wanted``; ``[rows, columns]``."""
    content = path.read_bytes()
    found: Tensors = {}
    for name, each in header.items():
        rows, columns = each.shape
        stored = np.dtype(_UNSIGNED[each.element_size])
        bits = np.frombuffer(content, stored, rows * columns, each.place).reshape(rows, columns)
        if each.dtype != wanted:  # F32, which holds them all
            is_half = each.dtype == "F16"
            bits = (
                bits.view(np.float16).astype(np.float32).view(np.uint32)
                if is_half
                else bits.astype(np.uint32) << np.uint32(16)
            )
        found[name] = bits
    return found


def _as_safetensors(form: Mapping[str, StoredTensor], tensors: Tensors) -> Any:
    """Write a file of the given form: each tensor in its upper left corner, zeros elsewhere."""
    header: dict[str, Any] = {}
    end = 0
    for name, each in form.items():
        begin, end = end, end + each.shape[0] * each.shape[1] * each.element_size
        header[name] = {"dtype": each.dtype, "shape": each.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    prefix = len(text).to_bytes(8, "little") + text
    content = np.zeros(len(prefix) + end, np.uint8)
    content[: len(prefix)] = np.frombuffer(prefix, np.uint8)
    for name, bits in tensors.items():
        begin, end = (len(prefix) + place for place in header[name]["data_offsets"])
        whole = content[begin:end].view(bits.dtype).reshape(form[name].shape)
        whole[: bits.shape[0], : bits.shape[1]] = bits
    # The library keeps the tensor, and with it a copy of the bytes.
    return openvino.Tensor(content)


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
        # Only with beam search: all other stop strings are cut in the server. The library (2026.4)
        # stops before a string that ends in a space is complete (decision 0011).
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

    The library allows the tokenizer's end token there, and ends the generation with the ones of the
    config only: without it the answer would go on after its form.

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


def device_properties(device: str) -> dict[str, object]:
    """Return the properties of a device that ``plugin_config`` may override."""
    return {"CPU_RUNTIME_CACHE_CAPACITY": _MOST_KERNELS} if device == "CPU" else {}


def draft_model(settings: EngineSettings) -> dict[str, object]:
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
            # Asked apart from loading the model, so that an unknown device is reported as
            # draft_device and not as a fault of the draft's files.
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


def seen(images: Sequence[Image]) -> dict[str, Any]:
    """Return the images and videos of a request as arguments of the library's pipelines.

    They are tensors, uint8, (frames, height, width, 3).
    """
    videos = [image for image in images if image.fps]
    given: dict[str, Any] = {"images": [_tensor(image) for image in images if not image.fps]}
    if videos:
        given |= {
            "videos": [_tensor(video) for video in videos],
            "videos_metadata": [_metadata(video) for video in videos],
        }
    return given


def _tensor(image: Image) -> Any:
    pixels = np.frombuffer(image.pixels, dtype=np.uint8)
    return openvino.Tensor(pixels.reshape(-1, image.height, image.width, 3))


def _metadata(video: Image) -> Any:
    """Say that all frames are to be looked at: they are chosen already."""
    metadata = genai.VideoMetadata()
    metadata.fps = video.fps
    metadata.frames_indices = list(range(video.pixel_count // (video.height * video.width)))
    return metadata


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
    # An NPU takes one request at a time, so only the option `device` chooses it.
    gpus = [str(device) for device in core.available_devices if device.startswith("GPU")]
    if not gpus:
        return "CPU"

    def worth(device: str) -> tuple[bool, int]:
        kind = str(core.get_property(device, "DEVICE_TYPE"))
        memory = int(core.get_property(device, "GPU_DEVICE_TOTAL_MEM_SIZE"))
        return "DISCRETE" in kind.upper(), memory

    return max(gpus, key=worth)
