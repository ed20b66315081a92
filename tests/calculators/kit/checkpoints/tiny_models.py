"""Tiny models of random numbers as GGUF files, one or more for each family.

Everything follows from a name and a seed, so no file is kept. A model's tensors follow from the
declaration of its family, and from `CASES`, which says what the family's files have besides. The
files have no vocabulary: they are for logits.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import Blocks, Value, write_gguf
from calculators.kit.checkpoints.families import FAMILIES
from calculators.kit.checkpoints.gguf import TENSOR_TYPES

VOCABULARY: Final = 96
#: Factor of gates that are inputs of GELU: nearly all are beyond 10 then, where llama.cpp has no
#: table of float16, so that its logits are exact.
_STEEP: Final = np.float32(1e6)
_NUMBERS: Final = {each.name: number for number, each in TENSOR_TYPES.items()}
#: Places of the float16 scales and offsets in a block.
_SCALES: Final[Mapping[str, tuple[int, ...]]] = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "IQ1_S": (0,),
    "IQ2_XXS": (0,),
    "IQ2_XS": (0,),
    "IQ2_S": (0,),
    "IQ3_XXS": (0,),
    "IQ3_S": (0,),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A tiny model.

    Attributes:
        parts: what its files have besides: ``bias`` of all products, ``qkv_bias``,
            ``attention_bias``, ``output_bias``, ``qk_norm``,
            ``wide_qk_norm`` (over all heads), ``fused_qkv``, ``fused_up``, ``no_gate``, ``tied``,
            ``norm_bias``, ``sinks``, ``factors`` of frequencies, ``long_factors``, ``shared``
            expert, ``shared_gate``, ``choice_bias``, ``steep`` gates (`_STEEP`), ``stateful`` (run
            as without continuous batching).
        values: of its file, below its architecture's name.
    """

    architecture: str
    parts: frozenset[str] = frozenset()
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    size: int = 16
    inner: int = 96
    experts: int = 0
    used: int = 2
    values: Mapping[str, Value | list[bool]] = field(default_factory=dict)


def _case(architecture: str, parts: str = "", **numbers: Any) -> Case:
    return Case(architecture, frozenset(parts.split()), **numbers)


_YARN: Final = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 64,
}
_WINDOW: Final = {"attention.sliding_window": 24}
_GRANITE: Final = {
    "logit_scale": 8.0,
    "residual_scale": 0.22,
    "embedding_scale": 12.0,
    "attention.scale": 0.0625,
}
_SECTIONS: Final = {"rope.dimension_sections": [3, 3, 2, 0]}
CASES: Final[Mapping[str, Case]] = {
    "llama": _case("llama"),
    "llama-3": _case("llama", "factors tied"),
    "llama-yarn": _case("llama", values=_YARN),
    "llama-linear": _case(
        "llama", values={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    ),
    "llama-biases": _case("llama", "qkv_bias"),
    "mixtral": _case("llama", experts=4),
    "mistral3": _case("mistral3", values={**_YARN, "rope.scaling.yarn_log_multiplier": 1.0}),
    "ministral3": _case(
        "mistral3",
        "tied",
        values={
            **_YARN,
            "rope.scaling.original_context_length": 32,
            "rope.scaling.yarn_log_multiplier": 1.0,
            "attention.temperature_scale": 0.1,
        },
    ),
    "arcee": _case("arcee", "no_gate"),
    "smollm3": _case("smollm3", "tied", layers=4),
    "internlm2": _case("internlm2"),
    "xverse": _case("xverse"),
    "minicpm": _case(
        "minicpm",
        "tied",
        values={"embedding_scale": 12.0, "residual_scale": 0.25, "logit_scale": 2.0},
    ),
    "granite": _case("granite", "tied", values=_GRANITE),
    "granitemoe": _case("granitemoe", "tied", experts=4, values=_GRANITE),
    "olmo": _case("olmo", "tied", kv_heads=4, values={"attention.clamp_kqv": 1.0}),
    "command-r": _case("command-r", "tied", values={"logit_scale": 0.0625}),
    "cohere2": _case("cohere2", "tied", layers=4, values={"logit_scale": 0.25, **_WINDOW}),
    "ernie4_5": _case("ernie4_5", "tied"),
    "glm4": _case("glm4", "qkv_bias fused_up", values={"rope.dimension_count": 8}),
    "chatglm": _case("chatglm", "fused_qkv qkv_bias fused_up", values={"rope.dimension_count": 8}),
    "deepseek": _case(
        "deepseek",
        "shared",
        kv_heads=4,
        layers=3,
        experts=4,
        values={
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "expert_weights_scale": 1.0,
        },
    ),
    "starcoder": _case("starcoder", "norm_bias bias fused_qkv no_gate tied", kv_heads=1),
    "gpt2": _case("gpt2", "norm_bias bias fused_qkv no_gate tied", kv_heads=4),
    "bloom": _case("bloom", "norm_bias bias fused_qkv no_gate tied embedding_norm", kv_heads=4),
    "refact": _case("refact", kv_heads=1),
    "qwen2": _case("qwen2", "qkv_bias tied"),
    "qwen3": _case("qwen3", "qk_norm tied"),
    "qwen2moe": _case(
        "qwen2moe",
        "qkv_bias shared shared_gate",
        experts=4,
        values={"expert_shared_feed_forward_length": 96},
    ),
    "qwen3moe": _case("qwen3moe", "qk_norm", experts=4),
    "gemma": _case("gemma", "tied", kv_heads=1),
    "gemma2": _case(
        "gemma2",
        "tied",
        values={**_WINDOW, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma2-capped": _case(
        "gemma2",
        "tied stateful",
        values={**_WINDOW, "attn_logit_softcapping": 0.02, "final_logit_softcapping": 30.0},
    ),
    "gemma3": _case(
        "gemma3",
        "tied qk_norm",
        layers=6,
        kv_heads=1,
        values={
            **_WINDOW,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    "gemma4": _case("gemma4", "tied", layers=6, kv_heads=1),
    "gemma4-steep": _case("gemma4", "tied steep", layers=6, kv_heads=1),
    "gemma4-moe": _case("gemma4", "tied steep", layers=6, kv_heads=1, experts=4),
    "phi2": _case(
        "phi2",
        "norm_bias bias fused_qkv no_gate output_bias",
        kv_heads=4,
        values={"rope.dimension_count": 8},
    ),
    "phi3": _case(
        "phi3",
        "fused_qkv fused_up long_factors",
        kv_heads=4,
        values={"rope.scaling.original_context_length": 48, "rope.scaling.attn_factor": 1.19},
    ),
    "starcoder2": _case("starcoder2", "norm_bias bias no_gate tied"),
    "gptneox": _case(
        "gptneox",
        "norm_bias bias fused_qkv no_gate",
        kv_heads=4,
        values={"rope.dimension_count": 4, "use_parallel_residual": True},
    ),
    "gptneox-serial": _case(
        "gptneox",
        "norm_bias bias fused_qkv no_gate",
        kv_heads=4,
        values={"rope.dimension_count": 4, "use_parallel_residual": False},
    ),
    "falcon": _case("falcon", "norm_bias fused_qkv no_gate tied", kv_heads=1),
    "falcon-40b": _case("falcon", "norm_bias fused_qkv no_gate second_norm"),
    "stablelm": _case("stablelm", "norm_bias", values={"rope.dimension_count": 4}),
    "stablelm-12b": _case(
        "stablelm", "norm_bias unnormed", kv_heads=4, values={"rope.dimension_count": 4}
    ),
    "orion": _case("orion", "norm_bias", kv_heads=4),
    "nemotron": _case("nemotron", "norm_bias no_gate", values={"rope.dimension_count": 8}),
    "olmo2": _case("olmo2", "wide_qk_norm", kv_heads=4),
    "olmo3": _case(
        "olmo2", "wide_qk_norm", kv_heads=4, layers=4, values={**_WINDOW, "rope.freq_base": 5e5}
    ),
    "olmoe": _case("olmoe", "wide_qk_norm", kv_heads=4, experts=4),
    "exaone": _case("exaone", "factors"),
    "exaone4": _case("exaone4", "qk_norm tied"),
    "hunyuan-dense": _case("hunyuan-dense", "qk_norm tied"),
    "hunyuan-moe": _case(
        "hunyuan-moe",
        "qk_norm shared tied",
        experts=4,
        values={"expert_shared_feed_forward_length": 96},
    ),
    "seed_oss": _case("seed_oss", "qkv_bias"),
    "dots1": _case(
        "dots1",
        "qk_norm shared choice_bias",
        kv_heads=4,
        experts=4,
        values={
            "leading_dense_block_count": 0,
            "expert_shared_count": 1,
            "expert_weights_scale": 2.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
        },
    ),
    "glm4moe": _case(
        "glm4moe",
        "qkv_bias qk_norm shared choice_bias",
        experts=4,
        values={
            "leading_dense_block_count": 0,
            "expert_shared_count": 1,
            "expert_weights_scale": 1.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
            "rope.dimension_count": 8,
        },
    ),
    "bailingmoe2": _case(
        "bailingmoe2",
        "fused_qkv qk_norm shared choice_bias",
        experts=8,
        values={
            "leading_dense_block_count": 0,
            "expert_shared_count": 1,
            "expert_shared_feed_forward_length": 96,
            "expert_weights_scale": 2.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
            "expert_group_count": 4,
            "expert_group_used_count": 2,
        },
    ),
    "minimax-m2": _case(
        "minimax-m2",
        "wide_qk_norm choice_bias",
        experts=4,
        values={"expert_gating_func": 2, "rope.dimension_count": 8},
    ),
    "gpt-oss": _case(
        "gpt-oss",
        "sinks bias",
        experts=4,
        values={**_YARN, **_WINDOW, "rope.scaling.factor": 32.0},
    ),
    "ernie4_5-moe": _case(
        "ernie4_5-moe",
        "choice_bias",
        layers=3,
        experts=4,
        values={"leading_dense_block_count": 1, "interleave_moe_layer_step": 1},
    ),
    "bailingmoe": _case(
        "bailingmoe",
        "shared",
        kv_heads=4,
        experts=4,
        values={
            "leading_dense_block_count": 0,
            "expert_shared_count": 1,
            "expert_weights_scale": 1.0,
            "expert_weights_norm": True,
        },
    ),
    "maincoder": _case("maincoder", "qk_norm tied"),
    "qwen": _case("qwen", "fused_qkv qkv_bias", kv_heads=4, values={"feed_forward_length": 192}),
    "qwen3vl": _case("qwen3vl", "qk_norm", values={"rope.dimension_sections": [3, 3, 2, 0]}),
    "qwen3vlmoe": _case(
        "qwen3vlmoe", "qk_norm", experts=4, values={"rope.dimension_sections": [3, 3, 2, 0]}
    ),
    "phimoe": _case(
        "phimoe", "norm_bias qkv_bias attention_bias output_bias", kv_heads=4, experts=4
    ),
    "codeshell": _case("codeshell", "norm_bias bias fused_qkv no_gate"),
    "openelm": _case("openelm", "fused_qkv qk_norm tied"),
    "pangu-embedded": _case("pangu-embedded", "qkv_bias attention_bias"),
    "mellum": _case("mellum", "qk_norm", layers=4, experts=4, values=_WINDOW),
    "deci": _case("deci"),
    "qwen35": _case("qwen35", "qk_norm", layers=4, values=_SECTIONS),
    "qwen35moe": _case(
        "qwen35moe",
        "qk_norm shared shared_gate",
        layers=4,
        experts=4,
        values={**_SECTIONS, "expert_shared_feed_forward_length": 96},
    ),
    "qwen3next": _case(
        "qwen3next",
        "qk_norm shared shared_gate",
        layers=4,
        experts=4,
        values={"expert_shared_feed_forward_length": 96},
    ),
    "lfm2": _case("lfm2", "qk_norm tied", layers=4),
    "lfm2moe": _case(
        "lfm2moe",
        "qk_norm tied choice_bias",
        layers=4,
        experts=4,
        values={"leading_dense_block_count": 1, "expert_gating_func": 2},
    ),
    "deepseek2": _case("deepseek2", layers=2, experts=4),
    "deepseek2-lite": _case("deepseek2", "no_low_queries", layers=2, experts=4),
}


def write_tiny(path: Path, name: str, seed: int = 1, kind: str = "F32", **changes: Any) -> Path:
    """Write a tiny model.

    Args:
        kind: type of the matrices whose rows are whole blocks of it; Q8_0 or F32 for the others.
        changes: of the case's members, and ``more``: values.
    """
    more = changes.pop("more", {})
    case = CASES[name]
    case = Case(**{**{key: getattr(case, key) for key in Case.__slots__}, **changes})
    maker = _Maker(case, seed, kind)
    makers = {
        "gemma4": maker.gemma4,
        "latent": maker.latent,
        "convolution": maker.convolution,
        "delta": maker.delta,
    }
    tensors = makers.get(FAMILIES[case.architecture].builder, maker.decoder)()
    a = f"{case.architecture}."
    values: dict[str, Any] = {
        "general.architecture": case.architecture,
        a + "context_length": 512,
        a + "embedding_length": case.width,
        a + "block_count": case.layers,
        a + "feed_forward_length": case.inner,
        a + "attention.head_count": case.heads,
        a + "attention.head_count_kv": case.kv_heads,
        a + "attention.key_length": case.size,
        a + "attention.value_length": case.size,
        a + "rope.dimension_count": case.size,
        a + "rope.freq_base": 10000.0,
        a + "vocab_size": VOCABULARY,
        a + "attention.layer_norm_epsilon": 1e-5,
        a + "attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "no_vocab",
    }
    if case.experts:
        values |= {
            a + "expert_count": case.experts,
            a + "expert_used_count": case.used,
            a + "expert_feed_forward_length": case.inner,
        }
    values |= {a + key: value for key, value in maker.values.items()}
    values |= {a + key: value for key, value in case.values.items()}
    values |= {key if "tokenizer" in key else a + key: value for key, value in more.items()}
    write_gguf(path, values, tensors)
    return path


def blocks(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Blocks:
    """Return random blocks whose weights are about as large as those of a model."""
    layout = TENSOR_TYPES[_NUMBERS[kind]]
    count = int(np.prod(shape)) // layout.weights
    data = random.integers(0, 256, (count, layout.size), dtype=np.uint8)
    if kind == "MXFP4":
        data[:, 0] = random.integers(120, 123, count)
    elif kind == "NVFP4":
        data[:, :4] = random.integers(0x10, 0x30, (count, 4))
    elif kind == "IQ1_M":  # the scale lies in the high bits of four words
        scale = (0.01 * (0.5 + random.random(count))).astype("<f2").view("<u2")
        words = data[:, 48:56].copy().view("<u2")
        for place in range(4):
            words[:, place] = (words[:, place] & 0xFFF) | (scale >> (4 * place) & 0xF) << 12
        data[:, 48:56] = words.view(np.uint8)
    size = {"Q2_K": 0.006, "Q3_K": 0.0015, "Q4_K": 0.0007, "Q5_K": 0.0003, "Q6_K": 1.2e-4}.get(
        kind,
        {"Q8_0": 0.0014, "IQ4_XS": 7e-5, "IQ4_NL": 0.002, "TQ1_0": 0.1, "TQ2_0": 0.1}.get(
            kind, 0.015 if not kind.startswith("IQ") else 0.001
        ),
    )
    for number, place in enumerate(_SCALES.get(kind, ())):
        scale = size * (0.5 + random.random(count))
        if number:  # the middle of the codes is about 0
            scale *= {"Q4_1": -7.3, "Q5_1": -15.4, "Q2_K": 1.4, "Q4_K": 7.2, "Q5_K": 15.1}[kind]
        data[:, place : place + 2] = scale.astype("<f2").view(np.uint8).reshape(count, 2)
    return Blocks(_NUMBERS[kind], shape, data)


class _Maker:
    """The tensors of a case."""

    def __init__(self, case: Case, seed: int, kind: str) -> None:
        self._case = case
        self._kind = kind
        name = zlib.crc32(repr(case.architecture).encode())
        self._random = np.random.default_rng([seed, name])
        self._tensors: dict[str, NDArray[Any] | Blocks] = {}
        self.values: dict[str, Any] = {}

    def decoder(self) -> Mapping[str, NDArray[Any] | Blocks]:
        """Return the tensors of an ordinary decoder."""
        case, parts, family = self._case, self._case.parts, FAMILIES[self._case.architecture]
        self._ends()
        if family.positions == "learned":
            self._matrix("position_embd", 512, case.width)
        if "embedding_norm" in parts:
            self._norm("token_embd_norm", case.width)
        half = case.size // 2
        if "factors" in parts:
            self._tensors["rope_freqs.weight"] = np.geomspace(1, 8, half).astype("<f4")
        if "long_factors" in parts:
            for word, last in (("short", 1.3), ("long", 6.0)):
                factors = np.linspace(1, last, half).astype("<f4")
                self._tensors[f"rope_factors_{word}.weight"] = factors
        for number in range(case.layers):
            blk = f"blk.{number}."
            for name in family.norms:
                if name and not (name == "ffn_norm" and "unnormed" in parts):
                    self._norm(blk + name, case.width)
            if "second_norm" in parts:
                self._norm(f"{blk}attn_norm_2", case.width)
            self._attention(blk)
            dense = case.values.get("leading_dense_block_count", 0)
            if case.experts and number >= int(str(dense)):
                self._experts(blk)
            else:
                self._feed_forward(blk)
        return self._tensors

    def convolution(self) -> Mapping[str, NDArray[Any] | Blocks]:
        """Return the tensors of an LFM2: every third layer is attention."""
        case = self._case
        kv_heads = [case.kv_heads if number % 3 == 2 else 0 for number in range(case.layers)]
        self._ends("token_embd_norm")
        for number, heads in enumerate(kv_heads):
            blk = f"blk.{number}."
            self._norm(f"{blk}attn_norm", case.width)
            self._norm(f"{blk}ffn_norm", case.width)
            if heads:
                self._attention(blk)
            else:
                self._plain(f"{blk}shortconv.conv.weight", case.width, 3)
                self._matrix(f"{blk}shortconv.in_proj", 3 * case.width, case.width)
                self._matrix(f"{blk}shortconv.out_proj", case.width, case.width)
            dense = int(str(case.values.get("leading_dense_block_count", 0)))
            if case.experts and number >= dense:
                self._experts(blk)
            else:
                self._feed_forward(blk)
        self.values = {"attention.head_count_kv": kv_heads, "shortconv.l_cache": 3}
        return self._tensors

    def delta(self) -> Mapping[str, NDArray[Any] | Blocks]:
        """Return the tensors of a model with linear attention in three of four layers."""
        case = self._case
        size, key_heads, heads = 16, 2, 4
        inner, channels = heads * size, (2 * key_heads + heads) * size
        self._ends()
        for number in range(case.layers):
            blk = f"blk.{number}."
            self._norm(f"{blk}attn_norm", case.width)
            self._norm(f"{blk}post_attention_norm", case.width)
            if number % 4 == 3:
                self._attention(blk)
                self._matrix(f"{blk}attn_q", 2 * case.heads * case.size, case.width)
            else:
                self._matrix(f"{blk}attn_qkv", channels, case.width)
                self._matrix(f"{blk}attn_gate", inner, case.width)
                self._plain(f"{blk}ssm_conv1d.weight", channels, 4)
                self._vector(f"{blk}ssm_dt.bias", heads)
                self._vector(f"{blk}ssm_a", heads, -1.0, 0.3)
                if case.architecture == "qwen3next":
                    self._matrix(f"{blk}ssm_ba", 2 * heads, case.width)
                else:
                    self._matrix(f"{blk}ssm_beta", heads, case.width)
                    self._matrix(f"{blk}ssm_alpha", heads, case.width)
                self._vector(f"{blk}ssm_norm.weight", size, 1.0)
                self._matrix(f"{blk}ssm_out", case.width, inner)
            if case.experts:
                self._experts(blk)
            else:
                self._feed_forward(blk)
        self.values = {
            "ssm.conv_kernel": 4,
            "ssm.inner_size": inner,
            "ssm.state_size": size,
            "ssm.time_step_rank": heads,
            "ssm.group_count": key_heads,
            "full_attention_interval": 4,
        }
        return self._tensors

    def _ends(self, norm: str = "output_norm") -> None:
        case = self._case
        self._matrix("token_embd", VOCABULARY, case.width)
        self._norm(norm, case.width)
        if "tied" not in case.parts:
            self._matrix("output", VOCABULARY, case.width)
        if "output_bias" in case.parts:
            self._vector("output.bias", VOCABULARY)

    def _attention(self, blk: str) -> None:
        case, parts = self._case, self._case.parts
        counts = {
            "q": case.heads * case.size,
            "k": case.kv_heads * case.size,
            "v": case.kv_heads * case.size,
        }
        if "fused_qkv" in parts:
            counts = {"qkv": sum(counts.values())}
        for part, rows in counts.items():
            self._matrix(f"{blk}attn_{part}", rows, case.width)
            if parts & {"bias", "qkv_bias"}:
                self._vector(f"{blk}attn_{part}.bias", rows)
        self._matrix(f"{blk}attn_output", case.width, case.heads * case.size)
        if parts & {"bias", "attention_bias"}:
            self._vector(f"{blk}attn_output.bias", case.width)
        if parts & {"qk_norm", "wide_qk_norm"}:
            is_wide = "wide_qk_norm" in parts
            for part, heads in (("q", case.heads), ("k", case.kv_heads)):
                length = heads * case.size if is_wide else case.size
                self._vector(f"{blk}attn_{part}_norm.weight", length, 1.0)
        if "sinks" in parts:
            self._vector(f"{blk}attn_sinks.weight", case.heads, 0.0, 1.0)

    def _feed_forward(self, blk: str, suffix: str = "") -> None:
        case, parts = self._case, self._case.parts
        is_fused = "fused_up" in parts and not suffix
        self._matrix(f"{blk}ffn_up{suffix}", case.inner * (2 if is_fused else 1), case.width)
        if not is_fused and "no_gate" not in parts:
            self._matrix(f"{blk}ffn_gate{suffix}", case.inner, case.width)
        self._matrix(f"{blk}ffn_down{suffix}", case.width, case.inner)
        if "bias" in parts and not suffix:
            self._vector(f"{blk}ffn_up.bias", case.inner)
            self._vector(f"{blk}ffn_down.bias", case.width)

    def _experts(self, blk: str) -> None:
        case, parts = self._case, self._case.parts
        self._plain(f"{blk}ffn_gate_inp.weight", case.experts, case.width)
        shapes = {
            "gate": (case.experts, case.inner, case.width),
            "up": (case.experts, case.inner, case.width),
            "down": (case.experts, case.width, case.inner),
        }
        for part, shape in shapes.items():
            self._matrix(f"{blk}ffn_{part}_exps", *shape)
            if "bias" in parts:
                self._plain(f"{blk}ffn_{part}_exps.bias", *shape[:2])
        if "bias" in parts:
            self._vector(f"{blk}ffn_gate_inp.bias", case.experts)
        if "choice_bias" in parts:
            self._vector(f"{blk}exp_probs_b.bias", case.experts)
        if "shared" in parts:
            self._feed_forward(blk, "_shexp")
        if "shared_gate" in parts:
            self._vector(f"{blk}ffn_gate_inp_shexp.weight", case.width)

    def latent(self) -> Mapping[str, NDArray[Any] | Blocks]:
        """Return the tensors of a model with latent attention."""
        case = self._case
        latent, turned, plain, value, low = 32, 8, 16, 16, 32
        key = plain + turned
        self._ends()
        for number in range(case.layers):
            blk = f"blk.{number}."
            self._norm(f"{blk}attn_norm", case.width)
            self._norm(f"{blk}ffn_norm", case.width)
            if "no_low_queries" in case.parts:
                self._matrix(f"{blk}attn_q", case.heads * key, case.width)
            else:
                self._matrix(f"{blk}attn_q_a", low, case.width)
                self._norm(f"{blk}attn_q_a_norm", low)
                self._matrix(f"{blk}attn_q_b", case.heads * key, low)
            self._matrix(f"{blk}attn_kv_a_mqa", latent + turned, case.width)
            self._norm(f"{blk}attn_kv_a_norm", latent)
            self._matrix(f"{blk}attn_k_b", case.heads, latent, plain)
            self._matrix(f"{blk}attn_v_b", case.heads, value, latent)
            self._matrix(f"{blk}attn_output", case.width, case.heads * value)
            if number == 0:
                self._feed_forward(blk)
                continue
            self._experts(blk)
            self._feed_forward(blk, "_shexp")
            self._vector(f"{blk}exp_probs_b.bias", case.experts)
        self.values = {
            "attention.head_count_kv": 1,
            "attention.key_length": latent + turned,
            "attention.value_length": latent,
            "attention.key_length_mla": key,
            "attention.value_length_mla": value,
            "attention.kv_lora_rank": latent,
            "rope.dimension_count": turned,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "expert_weights_scale": 2.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
            **_YARN,
            "rope.scaling.yarn_log_multiplier": 0.0707,
        }
        if "no_low_queries" not in case.parts:
            self.values["attention.q_lora_rank"] = low
        return self._tensors

    def gemma4(self) -> Mapping[str, NDArray[Any] | Blocks]:
        """Return the tensors of a Gemma 4; layers 2 and 5 see everything, the last three share."""
        case, part, shared = self._case, 16, 3
        full, near = 2 * case.size, case.size
        slides = [number % 3 != 2 for number in range(case.layers)]
        self._ends()
        turned = np.arange(full // 2) < full // 8
        self._tensors["rope_freqs.weight"] = np.where(turned, 1.0, 1e30).astype("<f4")
        self._matrix("per_layer_token_embd", VOCABULARY, part * case.layers)
        self._matrix("per_layer_model_proj", part * case.layers, case.width)
        self._norm("per_layer_proj_norm", part)
        for number in range(case.layers):
            blk, size = f"blk.{number}.", near if slides[number] else full
            for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
                self._norm(blk + name, case.width)
            self._matrix(f"{blk}attn_q", case.heads * size, case.width)
            self._norm(f"{blk}attn_q_norm", size)
            if number < case.layers - shared:
                self._matrix(f"{blk}attn_k", case.kv_heads * size, case.width)
                self._norm(f"{blk}attn_k_norm", size)
                if slides[number]:
                    self._matrix(f"{blk}attn_v", case.kv_heads * size, case.width)
            self._matrix(f"{blk}attn_output", case.width, case.heads * size)
            self._feed_forward(blk)
            if case.experts:
                for name in ("post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"):
                    self._norm(blk + name, case.width)
                self._plain(f"{blk}ffn_gate_inp.weight", case.experts, case.width)
                self._vector(f"{blk}ffn_gate_inp.scale", case.width, 1.0)
                shape = (case.experts, 2 * case.inner, case.width)
                self._matrix(f"{blk}ffn_gate_up_exps", *shape)
                self._matrix(f"{blk}ffn_down_exps", case.experts, case.width, case.inner)
            self._matrix(f"{blk}inp_gate", part, case.width)
            self._matrix(f"{blk}proj", case.width, part)
            self._norm(f"{blk}post_norm", case.width)
            self._tensors[f"{blk}layer_output_scale.weight"] = np.array([0.6], "<f4")
            if "steep" in case.parts:
                self._make_steep(blk)
        self.values = {
            "attention.key_length": full,
            "attention.value_length": full,
            "attention.key_length_swa": near,
            "attention.value_length_swa": near,
            "rope.dimension_count": full,
            "rope.dimension_count_swa": near,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 10000.0,
            "attention.sliding_window": 24,
            "attention.sliding_window_pattern": slides,
            "attention.shared_kv_layers": shared,
            "embedding_length_per_layer_input": part,
            "final_logit_softcapping": 30.0,
        }
        return self._tensors

    def _make_steep(self, blk: str) -> None:
        for name in ("ffn_gate", "inp_gate", "ffn_gate_up_exps"):
            gates = self._tensors.get(f"{blk}{name}.weight")
            if isinstance(gates, np.ndarray):
                gates[..., : self._case.inner, :] *= _STEEP

    # Single tensors.

    def _matrix(self, name: str, *shape: int) -> None:
        kind = self._kind
        if kind not in ("F32", "F16", "BF16") and shape[-1] % TENSOR_TYPES[_NUMBERS[kind]].weights:
            kind = "F32" if shape[-1] % 32 else "Q8_0"
        if kind in ("F32", "F16", "BF16"):
            numbers = self._random.standard_normal(shape) * 0.1
            if kind == "BF16":
                data = (numbers.astype("<f4").view("<u4") >> 16).astype("<u2")
                self._tensors[f"{name}.weight"] = data
            else:
                self._tensors[f"{name}.weight"] = numbers.astype("<f4" if kind == "F32" else "<f2")
        else:
            self._tensors[f"{name}.weight"] = blocks(self._random, kind, shape)

    def _plain(self, name: str, *shape: int) -> None:
        self._tensors[name] = (self._random.standard_normal(shape) * 0.1).astype("<f4")

    def _vector(self, name: str, length: int, around: float = 0.0, spread: float = 0.1) -> None:
        numbers = around + self._random.standard_normal(length) * spread
        self._tensors[name] = numbers.astype("<f4")

    def _norm(self, name: str, length: int) -> None:
        family = FAMILIES[self._case.architecture]
        if not family.norms_have_weights:
            return
        self._vector(f"{name}.weight", length, 1.0, 0.2)
        if "norm_bias" in self._case.parts:
            self._vector(f"{name}.bias", length)
