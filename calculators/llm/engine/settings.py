"""`EngineSettings` and `GenerationSettings`: an engine's options in openvino-genai's terms.

`EngineSettings` load a model and come from a node's options; `PipelineKind` says what the type of
pipeline among them is capable of. `GenerationSettings` are the sampling of one request. Both are
data that travel to the engine process, which `library_config` converts to the library's types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

from calculators.llm.grammars.grammar import Grammar

#: Candidates of one pass. More are hardly ever right, and delay all other requests.
MAX_ASSISTANT_TOKENS: Final = 32


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resolved sampling of one request: request over ``generation_config.json`` over default.

    Names and meaning follow openvino-genai's ``GenerationConfig``, which is given every field
    that is not None (`calculators.llm.engine.library_config`). Stop strings end the generation;
    their text is part of what the engine returns, and is cut where text is made.

    Attributes:
        max_new_tokens: None: until the model ends, or its length is used up.
        max_length: tokens of prompt and answer together, for prompts with images, which only the
            engine can count. Then ``max_new_tokens`` may be None for the rest.
        is_shortened: where ``max_length`` leaves less than ``max_new_tokens``, the answer gets the
            rest; else the request is refused.
        top_k: None is no limit.
        rng_seed: 32 bits; always given when ``do_sample``.
        logprobs: return the log-probability of each chosen token.
        echo: let the prompt's tokens come first, with their log-probabilities when asked for.
        stop_token_ids: None is the model's own end tokens; else all that end the generation.
        grammar: the form of the answer; proven, see `calculators.llm.grammars`. Not with beams,
            ``ignore_eos`` or ``min_new_tokens``, with which the engine would not follow it.
        adapter: name of the LoRA adapter that answers; "" is none, the model itself.
        num_assistant_tokens: candidates of one pass. Where a draft model or the prompt proposes
            tokens, this or ``assistant_confidence_threshold`` is above 0.
        assistant_confidence_threshold: confidence down to which a draft model proposes, 0..1.
        max_ngram_size: the most last tokens that are looked up in the prompt.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    is_shortened: bool = False
    min_new_tokens: int = 0
    ignore_eos: bool = False
    stop_strings: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    rng_seed: int | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    length_penalty: float | None = None
    num_beams: int = 1
    num_return_sequences: int = 1
    logprobs: bool = False
    echo: bool = False
    grammar: Grammar | None = None
    num_assistant_tokens: int = 0
    assistant_confidence_threshold: float = 0.0
    max_ngram_size: int = 0
    adapter: str = ""


class TalkerSettings(msgspec.Struct, frozen=True, array_like=True):
    """An answer that is spoken too.

    Attributes:
        voice: the name of one of the model's voices; "" is its own choice.
        chunk_frames: the frames of 80 ms that are reported at a time; None is the library's choice.
        seed: of the sound; 32 bits.
    """

    voice: str = ""
    chunk_frames: int | None = None
    seed: int = 0


#: The types that ``LLMCalculatorOptions`` names: for text, for text and images, or for text, images
#: and sound; one request at a time, or continuous batching (``_CB``).
PipelineType = Literal["LM", "LM_CB", "VLM", "VLM_CB", "OMNI"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineKind:
    """The capabilities of one `PipelineType`. A device or other options may take some away.

    Attributes:
        batches: many requests are generated at a time (continuous batching); otherwise one is.
        sees_images: the pipeline takes text and images.
        hears: the pipeline takes sound too, if its model does.
        speaks: the pipeline answers with sound too.
        has_logprobs: the pipeline can report probabilities of tokens.
        has_beams: the pipeline can search with beams.
        has_adapters: the pipeline can load LoRA adapters.
        properties_at_top: the pipeline looks for the NPU's own properties only at the top of
            ``plugin_config``.
        weights: the name of the file with most of the weights, without its ending.
    """

    batches: bool
    sees_images: bool
    hears: bool = False
    speaks: bool = False
    has_logprobs: bool
    has_beams: bool
    has_adapters: bool
    properties_at_top: bool
    weights: str


KINDS: Final[Mapping[PipelineType, PipelineKind]] = {
    "LM": PipelineKind(
        batches=False,
        sees_images=False,
        has_logprobs=False,
        has_beams=True,
        has_adapters=True,
        properties_at_top=True,
        weights="openvino_model",
    ),
    "LM_CB": PipelineKind(
        batches=True,
        sees_images=False,
        has_logprobs=True,
        has_beams=True,
        has_adapters=True,
        properties_at_top=False,
        weights="openvino_model",
    ),
    "VLM": PipelineKind(
        batches=False,
        sees_images=True,
        hears=True,
        has_logprobs=False,
        has_beams=False,
        has_adapters=False,
        properties_at_top=False,
        weights="openvino_language_model",
    ),
    "VLM_CB": PipelineKind(
        batches=True,
        sees_images=True,
        has_logprobs=True,
        has_beams=True,
        has_adapters=False,
        properties_at_top=False,
        weights="openvino_language_model",
    ),
    "OMNI": PipelineKind(
        batches=False,
        sees_images=True,
        hears=True,
        speaks=True,
        has_logprobs=False,
        has_beams=False,
        has_adapters=False,
        properties_at_top=False,
        weights="openvino_language_model",
    ),
}
assert set(KINDS) == set(get_args(PipelineType))


def find_type(*, sees_images: bool, batches: bool) -> PipelineType:
    """Return the type with these capabilities, which does not speak."""
    return next(
        name
        for name, kind in KINDS.items()
        if (kind.sees_images, kind.batches, kind.speaks) == (sees_images, batches, False)
    )


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
        hears: the model takes sound, and so does its pipeline.
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
    hears: bool = False

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

        The library assumes that a prompt's last tokens all lie after ``start_size``, and crashes
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
