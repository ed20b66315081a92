"""The table of architectures: a family of language models is one declaration.

Decoders differ in few ways, and `ModelFamily` names them: which norms stand where, how positions
enter, what the feed-forward part computes, and which layers see a window only. Much is not
declared, since the tensors of a file show it: biases, norms of queries and keys, fused matrices, a
tied output layer, experts and shared experts, sinks.

Names of tensors are GGUF's. *Rotary embeddings* turn pairs of numbers of each head: a number and
its neighbour (``NEIGHBOURS``), or a number and the one half a head away (``HALVES``). The engine
knows halves; the rows of queries and keys of the other kind are put in that order, which changes
nothing else. A value that a family does not declare is not read from its file: some writers write
all values that there are, with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from calculators.kit.checkpoints.gguf import GgufFile
from graphrt_base.errors import ResourceError

NEIGHBOURS: Final = "neighbours"
HALVES: Final = "halves"
NO_ROTATION: Final = "none"


class Norms(NamedTuple):
    """The tensors of a layer's norms; "" for none.

    Without a norm before the feed-forward part, that part has the input of attention.
    """

    before_attention: str = "attn_norm"
    before_feed_forward: str = "ffn_norm"
    after_attention: str = ""
    after_feed_forward: str = ""


_BEFORE: Final = Norms()
_AROUND: Final = Norms("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
_AFTER: Final = Norms("", "", "post_attention_norm", "post_ffw_norm")
_OTHER_NAME: Final = Norms("attn_norm", "post_attention_norm")
_ONE: Final = Norms("attn_norm", "")


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """The declaration of a family.

    Attributes:
        models: what it is known for; for the documents.
        rotary: `HALVES`, `NEIGHBOURS` or `NO_ROTATION`.
        positions: ``rotary``, ``learned`` (a row for each place) or ``slopes`` (ALiBi).
        norm: ``rms`` or ``layer``.
        norms_have_weights: the norms of layers are more than a division.
        norms: of a layer.
        parallel: ``yes``: attention and feed-forward have the same input, and both are added to it.
            ``value``: as ``use_parallel_residual`` says. ``unnormed``: where the norm before the
            feed-forward part is absent.
        norms_queries: queries and keys have norms.
        has_gate: the feed-forward part has a gate.
        tensors: further ones that its files always have. ``output...`` and ``token_embd...`` are of
            the model, others of layers: a bias where its weight is, and that of a choice of experts
            or the gate of a shared one where there are such.
        activation: of the feed-forward part: ``silu``, ``gelu`` (by tanh), ``gelu_erf``, ``relu2``,
            ``clamped`` (gpt-oss).
        rotates_before_norm: queries and keys are rotated, then normed.
        values: the optional values of a file that count; see `_VALUES`.
        defaults: values that a file may leave out.
        window_period: of so many layers the last one sees everything, the others a window; 0: all
            see everything. A file's own pattern counts first.
        window_base: base of the rotary embedding in layers with a window; 0: the common one.
        window_layers: windows are used only with so many layers; 0: always.
        window_starts_full: the first layer of a period sees everything, not the last one.
        rotates_windows_only: layers that see everything have no rotary embedding.
        unrotated_period: every so many layers one has no rotary embedding; 0: none.
        attention_scale: ``size`` of a head, ``one``; or ``width``: by the width of a head's share,
            in models of `width_scale_layers` layers.
        logits: ``multiply`` or ``divide`` by ``logit_scale``.
        expert_gating: ``softmax``, ``sigmoid``, or ``chosen``: softmax over the chosen experts.
        expert_sum: the weights of the chosen experts are made to sum to 1; None: by the file.
        builder: ``decoder``, or the name of a builder of its own: ``latent`` attention, ``gemma4``,
            or ``convolution`` or ``delta`` rule in layers without heads of keys.
        warning: said when such a model is loaded for continuous batching.
    """

    models: str
    rotary: str = HALVES
    positions: str = "rotary"
    norm: str = "rms"
    norms_have_weights: bool = True
    norms: Norms = _BEFORE
    parallel: str = ""
    norms_queries: bool = False
    has_gate: bool = True
    tensors: frozenset[str] = frozenset()
    activation: str = "silu"
    rotates_before_norm: bool = False
    values: frozenset[str] = frozenset()
    defaults: Mapping[str, float] = field(default_factory=dict)
    window_period: int = 0
    window_base: float = 0.0
    window_layers: int = 0
    window_starts_full: bool = False
    rotates_windows_only: bool = False
    unrotated_period: int = 0
    attention_scale: str = "size"
    width_scale_layers: int = 0
    logits: str = "multiply"
    expert_gating: str = "softmax"
    expert_sum: bool | None = None
    builder: str = "decoder"
    warning: str = ""


def _values(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OUTPUT: Final = _values("output.weight")  # never tied to the embedding
_NORM_BIASES: Final = _values("output_norm.bias attn_norm.bias ffn_norm.bias")
_BIASES: Final = _NORM_BIASES | _values("attn_output.bias ffn_up.bias ffn_down.bias")
_QKV_BIAS: Final = _values("attn_qkv.bias")
_SHARED_GATE: Final = _values("ffn_gate_inp_shexp.weight")
_CHOICE: Final = _values("exp_probs_b.bias")
_GRANITE: Final = _values("embedding_scale residual_scale attention.scale logit_scale")

#: The families by ``general.architecture``.
FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "llama": ModelFamily(
        "Llama 1 to 3.3, Mistral, Mixtral, SmolLM, Yi, TinyLlama", NEIGHBOURS, expert_sum=True
    ),
    "mistral3": ModelFamily(
        "Mistral Small 3, Ministral 3",
        NEIGHBOURS,
        expert_sum=True,
        values=_values("attention.temperature_scale"),
    ),
    "deci": ModelFamily("DeciLM, Nemotron with uneven layers", NEIGHBOURS),
    "arcee": ModelFamily("Arcee AFM", NEIGHBOURS, activation="relu2", has_gate=False),
    "smollm3": ModelFamily("SmolLM3", NEIGHBOURS, unrotated_period=4),
    "internlm2": ModelFamily("InternLM 2 to 3", NEIGHBOURS, tensors=_OUTPUT),
    "xverse": ModelFamily("XVERSE", NEIGHBOURS, tensors=_OUTPUT),
    "minicpm": ModelFamily(
        "MiniCPM",
        NEIGHBOURS,
        values=_GRANITE,
        defaults={"embedding_scale": 12.0},
        logits="divide",
        expert_sum=True,
    ),
    "granite": ModelFamily("Granite 3, 4 (dense)", NEIGHBOURS, values=_GRANITE, logits="divide"),
    "granitemoe": ModelFamily(
        "Granite 3, 4 with experts",
        NEIGHBOURS,
        values=_GRANITE,
        logits="divide",
        expert_sum=True,
    ),
    "olmo": ModelFamily(
        "OLMo",
        NEIGHBOURS,
        norm="layer",
        norms_have_weights=False,
        values=_values("attention.clamp_kqv"),
    ),
    "command-r": ModelFamily(
        "Command R, Aya",
        NEIGHBOURS,
        norm="layer",
        norms=_ONE,
        parallel="yes",
        values=_values("logit_scale"),
    ),
    "cohere2": ModelFamily(
        "Command R7B, Command A, Aya Expanse",
        NEIGHBOURS,
        norm="layer",
        norms=_ONE,
        parallel="yes",
        values=_values("logit_scale"),
        window_period=4,
        rotates_windows_only=True,
    ),
    "ernie4_5": ModelFamily("ERNIE 4.5", NEIGHBOURS),
    "ernie4_5-moe": ModelFamily("ERNIE 4.5 with experts", NEIGHBOURS, expert_sum=True),
    "glm4": ModelFamily("GLM 4", NEIGHBOURS, norms=_AROUND),
    "chatglm": ModelFamily("ChatGLM 3, GLM 4 9B", NEIGHBOURS),
    "deepseek": ModelFamily("DeepSeek 1", NEIGHBOURS, expert_sum=False),
    "bailingmoe": ModelFamily("Ling", NEIGHBOURS, tensors=_OUTPUT),
    "maincoder": ModelFamily("Maincoder", NEIGHBOURS, rotates_before_norm=True, norms_queries=True),
    "deepseek2": ModelFamily(
        "DeepSeek V2, V3, R1, Kimi K2 (latent attention)", NEIGHBOURS, builder="latent"
    ),
    "starcoder": ModelFamily(
        "StarCoder",
        NO_ROTATION,
        positions="learned",
        norm="layer",
        activation="gelu",
        has_gate=False,
        tensors=_BIASES | _QKV_BIAS,
    ),
    "gpt2": ModelFamily(
        "GPT-2",
        NO_ROTATION,
        positions="learned",
        norm="layer",
        activation="gelu",
        has_gate=False,
        tensors=_BIASES | _QKV_BIAS,
    ),
    "bloom": ModelFamily(
        "BLOOM",
        NO_ROTATION,
        positions="slopes",
        norm="layer",
        activation="gelu",
        has_gate=False,
        tensors=_BIASES | _QKV_BIAS | _values("token_embd_norm.weight token_embd_norm.bias"),
    ),
    "refact": ModelFamily("Refact", NO_ROTATION, positions="slopes"),
    "qwen": ModelFamily("Qwen 1", tensors=_OUTPUT | _QKV_BIAS),
    "qwen2": ModelFamily("Qwen 1.5 to 2.5, DeepSeek R1 distilled"),
    "qwen2vl": ModelFamily("Qwen 2 and 2.5 VL (text)"),
    "qwen3": ModelFamily("Qwen 3", norms_queries=True),
    "qwen3vl": ModelFamily("Qwen 3 VL (text)", norms_queries=True),
    "qwen2moe": ModelFamily(
        "Qwen 1.5 and 2 with experts", expert_sum=False, tensors=_OUTPUT | _SHARED_GATE
    ),
    "qwen3moe": ModelFamily("Qwen 3 with experts", expert_sum=True, norms_queries=True),
    "qwen3vlmoe": ModelFamily("Qwen 3 VL with experts (text)", expert_sum=True, norms_queries=True),
    "gemma": ModelFamily("Gemma 1, CodeGemma", activation="gelu", values=_values("width_scale")),
    "gemma2": ModelFamily(
        "Gemma 2",
        activation="gelu",
        norms=_AROUND,
        values=_values("width_scale final_logit_softcapping attn_logit_softcapping"),
        defaults={
            "attention.sliding_window": 4096,
            "final_logit_softcapping": 30.0,
            "attn_logit_softcapping": 50.0,
        },
        window_period=2,
        attention_scale="width",
        width_scale_layers=46,
        warning="its attention scores are not capped, since paged attention has no soft cap; "
        "with --pipeline_type LM they are, and requests are answered one after the other",
    ),
    "gemma3": ModelFamily(
        "Gemma 3 (text)",
        activation="gelu",
        norms=_AROUND,
        values=_values("width_scale final_logit_softcapping"),
        window_period=6,
        window_base=10000.0,
        attention_scale="width",
        width_scale_layers=62,
        norms_queries=True,
    ),
    "gemma4": ModelFamily(
        "Gemma 4 (text)",
        activation="gelu",
        norms=_AROUND,
        values=_values("width_scale final_logit_softcapping"),
        window_period=1,
        window_base=10000.0,
        attention_scale="one",
        expert_sum=True,
        builder="gemma4",
        norms_queries=True,
    ),
    "phi2": ModelFamily(
        "Phi 1.5, 2",
        norm="layer",
        activation="gelu",
        norms=_ONE,
        parallel="yes",
        has_gate=False,
        tensors=_OUTPUT | _BIASES | _values("output.bias"),
    ),
    "phi3": ModelFamily("Phi 3, 3.5, 4, 4 mini"),
    "phimoe": ModelFamily(
        "Phi 3.5 with experts",
        expert_sum=True,
        tensors=_OUTPUT | _NORM_BIASES | _values("output.bias attn_output.bias"),
    ),
    "starcoder2": ModelFamily(
        "StarCoder 2", norm="layer", activation="gelu", has_gate=False, tensors=_BIASES
    ),
    "codeshell": ModelFamily(
        "CodeShell", norm="layer", activation="gelu", has_gate=False, tensors=_OUTPUT | _BIASES
    ),
    "gptneox": ModelFamily(
        "GPT-NeoX, Pythia, Dolly, RedPajama",
        norm="layer",
        activation="gelu",
        parallel="value",
        has_gate=False,
        tensors=_OUTPUT | _BIASES | _QKV_BIAS,
    ),
    "falcon": ModelFamily(
        "Falcon",
        norm="layer",
        activation="gelu",
        norms=_ONE,
        parallel="yes",
        has_gate=False,
        tensors=_NORM_BIASES,
    ),
    "stablelm": ModelFamily(
        "StableLM 2, Zephyr", norm="layer", parallel="unnormed", tensors=_OUTPUT | _NORM_BIASES
    ),
    "orion": ModelFamily("Orion", norm="layer", tensors=_OUTPUT | _NORM_BIASES),
    "nemotron": ModelFamily(
        "Nemotron 3, 4, Minitron",
        norm="layer",
        activation="relu2",
        has_gate=False,
        tensors=_OUTPUT | _NORM_BIASES,
    ),
    "olmo2": ModelFamily(
        "OLMo 2, 3", norms=_AFTER, window_period=4, norms_queries=True, tensors=_OUTPUT
    ),
    "olmoe": ModelFamily("OLMoE", expert_sum=False, norms_queries=True, tensors=_OUTPUT),
    "openelm": ModelFamily("OpenELM", norms_queries=True),
    "exaone": ModelFamily("EXAONE 3"),
    "exaone4": ModelFamily(
        "EXAONE 4",
        norms=_AFTER,
        window_period=4,
        window_layers=64,
        rotates_windows_only=True,
        norms_queries=True,
    ),
    "hunyuan-dense": ModelFamily("Hunyuan (dense)", rotates_before_norm=True, norms_queries=True),
    "hunyuan-moe": ModelFamily(
        "Hunyuan A13B", rotates_before_norm=True, expert_sum=True, norms_queries=True
    ),
    "seed_oss": ModelFamily("Seed OSS", norms=_OTHER_NAME),
    "pangu-embedded": ModelFamily("Pangu Embedded", tensors=_values("attn_output.bias")),
    "dots1": ModelFamily("dots.llm1", norms_queries=True, tensors=_OUTPUT),
    "glm4moe": ModelFamily(
        "GLM 4.5, 4.6, Air", norms=_OTHER_NAME, expert_gating="sigmoid", tensors=_CHOICE
    ),
    "bailingmoe2": ModelFamily("Ling 2, Ring", norms_queries=True, tensors=_OUTPUT),
    "minimax-m2": ModelFamily(
        "MiniMax M2", expert_sum=True, norms_queries=True, tensors=_OUTPUT | _CHOICE
    ),
    "mellum": ModelFamily(
        "Mellum 2", expert_sum=True, window_period=4, norms_queries=True, tensors=_OUTPUT
    ),
    "lfm2": ModelFamily("LFM2", builder="convolution", norms_queries=True),
    "lfm2moe": ModelFamily(
        "LFM2 with experts",
        builder="convolution",
        expert_sum=True,
        norms_queries=True,
        tensors=_CHOICE,
    ),
    "qwen3next": ModelFamily(
        "Qwen3-Next",
        norms=_OTHER_NAME,
        expert_sum=True,
        builder="delta",
        norms_queries=True,
        tensors=_SHARED_GATE,
    ),
    "qwen35": ModelFamily(
        "Qwen 3.5 (text)", norms=_OTHER_NAME, builder="delta", norms_queries=True
    ),
    "qwen35moe": ModelFamily(
        "Qwen 3.5 with experts (text)",
        norms=_OTHER_NAME,
        expert_sum=True,
        builder="delta",
        norms_queries=True,
        tensors=_SHARED_GATE,
    ),
    "gpt-oss": ModelFamily(
        "gpt-oss",
        norms=_OTHER_NAME,
        activation="clamped",
        window_period=2,
        expert_gating="chosen",
        tensors=_OUTPUT
        | _values(
            "attn_output.bias attn_sinks.weight ffn_gate_inp.bias ffn_gate_exps.bias "
            "ffn_up_exps.bias ffn_down_exps.bias"
        ),
    ),
}

_STATE_SPACE: Final = "selective state spaces (SSM)"
_DELTA: Final = "a gated delta rule (linear attention)"
#: Architectures that are known and cannot be run, with the operation that is missing.
MISSING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mamba", "mamba2"), _STATE_SPACE),
    **dict.fromkeys(
        ("jamba", "falcon-h1", "nemotron_h", "nemotron_h_moe", "granitehybrid", "plamo2"),
        _STATE_SPACE,
    ),
    "kimi-linear": _DELTA,
    **dict.fromkeys(("rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), "RWKV's time mixing"),
    **dict.fromkeys(("deepseek32", "glm-dsa"), "sparse attention with an indexer"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "diffusion instead of a next token"),
    "llama4": "attention in chunks",
    "minicpm3": "latent attention in MiniCPM 3's form",
    "gemma3n": "alternating updates (AltUp)",
    "mpt": "clamped ALiBi attention in MPT's form",
    "grok": "soft caps of attention and router",
    "dbrx": "clamped fused attention in DBRX's form",
    "bitnet": "norms inside of attention and feed-forward part",
    "apertus": "the activation xIELU",
    "baichuan": "Baichuan's packed attention",
    **dict.fromkeys(("t5", "t5encoder"), "T5's relative positions"),
}
_BERT: Final = ModelFamily(
    "BERT, RoBERTa, XLM-RoBERTa, MiniLM, BGE, E5",
    NO_ROTATION,
    positions="learned",
    norm="layer",
    activation="gelu_erf",
    has_gate=False,
)
#: The families of models that turn texts into vectors; see `encoder.py`.
ENCODERS: Final[Mapping[str, ModelFamily]] = {
    "bert": _BERT,
    "jina-bert-v2": replace(
        _BERT, models="Jina Embeddings 2, Jina Reranker 1", positions="slopes", has_gate=True
    ),
    "jina-bert-v3": replace(_BERT, models="Jina Embeddings 3", rotary=HALVES, positions="rotary"),
    "nomic-bert": ModelFamily("Nomic Embed 1", norm="layer"),
    "nomic-bert-moe": ModelFamily(
        "Nomic Embed 2", norm="layer", activation="gelu_erf", expert_sum=False
    ),
    "modern-bert": ModelFamily(
        "ModernBERT, Granite Embedding R2, GTE ModernBERT",
        norm="layer",
        activation="gelu_erf",
        window_period=3,
        window_starts_full=True,
    ),
    "neo-bert": ModelFamily("NeoBERT", NEIGHBOURS),
    "eurobert": ModelFamily("EuroBERT"),
    "gemma-embedding": replace(FAMILIES["gemma3"], models="EmbeddingGemma"),
}
#: Ways of pooling the vectors of all tokens into one, by ``pooling_type``.
_POOLING: Final[Mapping[int, str]] = {1: "MEAN", 2: "CLS", 3: "LAST", 4: "RANK"}


def pooling_of(file: GgufFile) -> str:
    """Return the pooling of an embedding model: MEAN, CLS or LAST; "" for language models.

    RANK: the model has a head that gives each text, or pair of texts, a score.
    """
    name = file.architecture
    kind = file.metadata.integer(f"{name}.pooling_type") or 0
    if kind in _POOLING and (name in ENCODERS or name in FAMILIES):
        return _POOLING[kind]
    return "MEAN" if name in ENCODERS else ""


def find_encoder(file: GgufFile) -> ModelFamily | None:
    """Return the declaration of an encoder's family; None: the file is of a decoder."""
    name = file.architecture
    family = ENCODERS.get(name)
    if family is not None and file.metadata.text(f"{name}.hidden_activation") == "silu":
        return replace(family, activation="silu")
    return family


def find_family(file: GgufFile) -> ModelFamily:
    """Return the declaration of a file's family.

    Raises:
        ResourceError: the file is not a language model, or cannot be run; the text says why.
    """
    kind = file.metadata.text("general.type", "model")
    if kind not in ("model", None):
        raise ResourceError(
            f'"{file.name}" is not a language model: its "general.type" is {kind!r}'
            + ("; merge the adapter into its model" if kind == "adapter" else "")
        )
    name = file.architecture
    if name in FAMILIES:
        family = FAMILIES[name]
        if name == "glm4" and _has_sections(file):
            return replace(family, rotary=HALVES)  # of the vision models
        return family
    if name == "clip":
        raise ResourceError(
            f'"{file.name}" holds the eyes of a model (mmproj): give the file of its language model'
        )
    if name in MISSING:
        raise ResourceError(
            f'"{file.name}" is a model of the architecture "{name}", which needs {MISSING[name]}; '
            "the engine has no operation for that"
        )
    raise ResourceError(
        f'"{file.name}" is a model of the architecture "{name}", which is not known; known are '
        f"{', '.join(sorted({*FAMILIES, *ENCODERS}))}"
    )


def _has_sections(file: GgufFile) -> bool:
    sections = file.metadata.numbers("glm4.rope.dimension_sections")
    return sections is not None and bool(np.any(sections))
