"""The table of architectures: a family of language models is one declaration.

Decoders differ in few ways, and `Family` names them: which norms stand where, how positions enter,
what the feed-forward part computes, and which layers see a window only. Much is not declared, since
the tensors of a file show it: biases, norms of queries and keys, fused matrices, a tied output
layer, experts and shared experts, sinks.

`read_decoder` turns a declaration and the values of a file into a `Decoder`: the numbers of each
layer, with the frequencies of its rotary embedding. The builder (``builder.py``) reads nothing
else, so another kind of file needs another reader of its values, and no other builder.

Names of tensors are GGUF's. *Rotary embeddings* turn pairs of numbers of each head: a number and
its neighbour (``NEIGHBOURS``), or a number and the one half a head away (``HALVES``). The engine
knows halves; the rows of queries and keys of the other kind are put in that order, which changes
nothing else. A value that a family does not declare is not read from its file: some writers write
all values that there are, with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.llm.model_files.gguf import GgufFile
from graph_runtime import ResourceError

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
class Family:
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
        activation: of the feed-forward part: ``silu``, ``gelu`` (by tanh), ``relu2``, ``clamped``
            (gpt-oss).
        rotates_before_norm: queries and keys are rotated, then normed.
        values: the optional values of a file that count; see `_VALUES`.
        defaults: values that a file may leave out.
        window_period: of so many layers the last one sees everything, the others a window; 0: all
            see everything. A file's own pattern counts first.
        window_base: base of the rotary embedding in layers with a window; 0: the common one.
        window_layers: windows are used only with so many layers; 0: always.
        rotates_windows_only: layers that see everything have no rotary embedding.
        unrotated_period: every so many layers one has no rotary embedding; 0: none.
        attention_scale: ``size`` of a head, ``one``; or ``width``: by the width of a head's share,
            in models of `width_scale_layers` layers.
        logits: ``multiply`` or ``divide`` by ``logit_scale``.
        expert_gating: ``softmax``, ``sigmoid``, or ``chosen``: softmax over the chosen experts.
        expert_sum: the weights of the chosen experts are made to sum to 1; None: by the file.
        builder: ``decoder``, or the name of a builder of its own.
        warning: said when such a model is loaded.
    """

    models: str
    rotary: str = HALVES
    positions: str = "rotary"
    norm: str = "rms"
    norms_have_weights: bool = True
    norms: Norms = _BEFORE
    parallel: str = ""
    activation: str = "silu"
    rotates_before_norm: bool = False
    values: frozenset[str] = frozenset()
    defaults: Mapping[str, float] = field(default_factory=dict)
    window_period: int = 0
    window_base: float = 0.0
    window_layers: int = 0
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


_GRANITE: Final = _values("embedding_scale residual_scale attention.scale logit_scale")

#: The families by ``general.architecture``.
FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(
        "Llama 1 to 3.3, Mistral, Mixtral, SmolLM, Yi, TinyLlama", NEIGHBOURS, expert_sum=True
    ),
    "mistral3": Family(
        "Mistral Small 3, Ministral 3",
        NEIGHBOURS,
        expert_sum=True,
        values=_values("attention.temperature_scale"),
    ),
    "deci": Family("DeciLM, Nemotron with uneven layers", NEIGHBOURS),
    "arcee": Family("Arcee AFM", NEIGHBOURS, activation="relu2"),
    "smollm3": Family("SmolLM3", NEIGHBOURS, unrotated_period=4),
    "internlm2": Family("InternLM 2 to 3", NEIGHBOURS),
    "xverse": Family("XVERSE", NEIGHBOURS),
    "minicpm": Family(
        "MiniCPM",
        NEIGHBOURS,
        values=_GRANITE,
        defaults={"embedding_scale": 12.0},
        logits="divide",
        expert_sum=True,
    ),
    "granite": Family("Granite 3, 4 (dense)", NEIGHBOURS, values=_GRANITE, logits="divide"),
    "granitemoe": Family(
        "Granite 3, 4 with experts",
        NEIGHBOURS,
        values=_GRANITE,
        logits="divide",
        expert_sum=True,
    ),
    "olmo": Family(
        "OLMo",
        NEIGHBOURS,
        norm="layer",
        norms_have_weights=False,
        values=_values("attention.clamp_kqv"),
    ),
    "command-r": Family(
        "Command R, Aya",
        NEIGHBOURS,
        norm="layer",
        norms=_ONE,
        parallel="yes",
        values=_values("logit_scale"),
    ),
    "cohere2": Family(
        "Command R7B, Command A, Aya Expanse",
        NEIGHBOURS,
        norm="layer",
        norms=_ONE,
        parallel="yes",
        values=_values("logit_scale"),
        window_period=4,
        rotates_windows_only=True,
    ),
    "ernie4_5": Family("ERNIE 4.5", NEIGHBOURS),
    "ernie4_5-moe": Family("ERNIE 4.5 with experts", NEIGHBOURS, expert_sum=True),
    "glm4": Family("GLM 4", NEIGHBOURS, norms=_AROUND),
    "chatglm": Family("ChatGLM 3, GLM 4 9B", NEIGHBOURS),
    "deepseek": Family("DeepSeek 1", NEIGHBOURS, expert_sum=False),
    "bailingmoe": Family("Ling", NEIGHBOURS),
    "maincoder": Family("Maincoder", NEIGHBOURS, rotates_before_norm=True),
    "deepseek2": Family(
        "DeepSeek V2, V3, R1, Kimi K2 (latent attention)", NEIGHBOURS, builder="latent"
    ),
    "starcoder": Family(
        "StarCoder", NO_ROTATION, positions="learned", norm="layer", activation="gelu"
    ),
    "gpt2": Family("GPT-2", NO_ROTATION, positions="learned", norm="layer", activation="gelu"),
    "bloom": Family("BLOOM", NO_ROTATION, positions="slopes", norm="layer", activation="gelu"),
    "refact": Family("Refact", NO_ROTATION, positions="slopes"),
    "qwen": Family("Qwen 1"),
    "qwen2": Family("Qwen 1.5 to 2.5, DeepSeek R1 distilled"),
    "qwen2vl": Family("Qwen 2 and 2.5 VL (text)"),
    "qwen3": Family("Qwen 3"),
    "qwen3vl": Family("Qwen 3 VL (text)"),
    "qwen2moe": Family("Qwen 1.5 and 2 with experts", expert_sum=False),
    "qwen3moe": Family("Qwen 3 with experts", expert_sum=True),
    "qwen3vlmoe": Family("Qwen 3 VL with experts (text)", expert_sum=True),
    "gemma": Family("Gemma 1, CodeGemma", activation="gelu", values=_values("width_scale")),
    "gemma2": Family(
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
        "answers may differ slightly from other programs'",
    ),
    "gemma3": Family(
        "Gemma 3 (text)",
        activation="gelu",
        norms=_AROUND,
        values=_values("width_scale final_logit_softcapping"),
        window_period=6,
        window_base=10000.0,
        attention_scale="width",
        width_scale_layers=62,
    ),
    "gemma4": Family(
        "Gemma 4 (text)",
        activation="gelu",
        norms=_AROUND,
        values=_values("width_scale final_logit_softcapping"),
        window_period=1,
        window_base=10000.0,
        attention_scale="one",
        expert_sum=True,
        builder="gemma4",
    ),
    "phi2": Family("Phi 1.5, 2", norm="layer", activation="gelu", norms=_ONE, parallel="yes"),
    "phi3": Family("Phi 3, 3.5, 4, 4 mini"),
    "phimoe": Family("Phi 3.5 with experts", expert_sum=True),
    "starcoder2": Family("StarCoder 2", norm="layer", activation="gelu"),
    "codeshell": Family("CodeShell", norm="layer", activation="gelu"),
    "gptneox": Family(
        "GPT-NeoX, Pythia, Dolly, RedPajama", norm="layer", activation="gelu", parallel="value"
    ),
    "falcon": Family("Falcon", norm="layer", activation="gelu", norms=_ONE, parallel="yes"),
    "stablelm": Family("StableLM 2, Zephyr", norm="layer", parallel="unnormed"),
    "orion": Family("Orion", norm="layer"),
    "nemotron": Family("Nemotron 3, 4, Minitron", norm="layer", activation="relu2"),
    "olmo2": Family("OLMo 2, 3", norms=_AFTER, window_period=4),
    "olmoe": Family("OLMoE", expert_sum=False),
    "openelm": Family("OpenELM"),
    "exaone": Family("EXAONE 3"),
    "exaone4": Family(
        "EXAONE 4", norms=_AFTER, window_period=4, window_layers=64, rotates_windows_only=True
    ),
    "hunyuan-dense": Family("Hunyuan (dense)", rotates_before_norm=True),
    "hunyuan-moe": Family("Hunyuan A13B", rotates_before_norm=True, expert_sum=True),
    "seed_oss": Family("Seed OSS", norms=_OTHER_NAME),
    "pangu-embedded": Family("Pangu Embedded"),
    "dots1": Family("dots.llm1"),
    "glm4moe": Family("GLM 4.5, 4.6, Air", norms=_OTHER_NAME, expert_gating="sigmoid"),
    "bailingmoe2": Family("Ling 2, Ring"),
    "minimax-m2": Family("MiniMax M2", expert_sum=True),
    "mellum": Family("Mellum 2", expert_sum=True, window_period=4),
    "gpt-oss": Family(
        "gpt-oss", norms=_OTHER_NAME, activation="clamped", window_period=2, expert_gating="chosen"
    ),
}

_STATE_SPACE: Final = "selective state spaces (SSM)"
_DELTA: Final = "a gated delta rule (linear attention)"
_NO_DECODER: Final = "it is an encoder; serve it as an embedding or rerank model"
#: Architectures that are known and cannot be run, with the operation that is missing.
MISSING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mamba", "mamba2"), _STATE_SPACE),
    **dict.fromkeys(
        ("jamba", "falcon-h1", "nemotron_h", "nemotron_h_moe", "granitehybrid", "plamo2"),
        _STATE_SPACE,
    ),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe", "kimi-linear"), _DELTA),
    **dict.fromkeys(("lfm2", "lfm2moe"), "short convolutions with a state"),
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
}
_ENCODERS: Final = frozenset(
    {
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "eurobert",
        "gemma-embedding",
        "t5encoder",
    }
)


class Rotary(NamedTuple):
    """A rotary embedding: position times frequency is the angle of a pair.

    Attributes:
        frequencies: one per pair, in float64.
        factor: of sines and cosines.
    """

    frequencies: NDArray[np.float64]
    factor: float

    @property
    def numbers(self) -> int:
        """Numbers of a head that are rotated; the rest stays."""
        return 2 * len(self.frequencies)


class Layer(NamedTuple):
    """The numbers of a layer.

    Attributes:
        window: tokens that it sees, itself included; 0: all.
        rotary: None: it has none.
    """

    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    window: int
    rotary: Rotary | None


class Experts(NamedTuple):
    """The numbers of experts.

    Attributes:
        used: of them by a token.
        gating: as in `Family`.
        sum_is_one: the weights of the used ones are made to sum to 1.
        scale: of their weights.
        groups: of experts, of which `groups_used` are considered; at most 1: none.
    """

    number: int
    used: int
    gating: str
    sum_is_one: bool
    scale: float
    groups: int
    groups_used: int


@dataclass(frozen=True, slots=True)
class Decoder:
    """All numbers of a model.

    Scales that are 0 are absent.

    Attributes:
        context: tokens that it was made for.
        temperature: of attention by position: scale and length; None: none.
    """

    family: Family
    architecture: str
    width: int
    layers: list[Layer]
    context: int
    epsilon: float
    is_parallel: bool
    attention_scale: float
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    logit_softcap: float
    clamp: float
    experts: Experts
    temperature: tuple[float, int] | None


def find_family(file: GgufFile) -> Family:
    """Return the declaration of a file's family.

    Raises:
        ResourceError: the file is no language model, or one that cannot be run; the text says why.
    """
    kind = file.metadata.text("general.type", "model")
    if kind not in ("model", None):
        raise ResourceError(
            f'"{file.name}" is no language model: its "general.type" is {kind!r}'
            + ("; merge the adapter into its model" if kind == "adapter" else "")
        )
    name = file.architecture
    if name in FAMILIES:
        family = FAMILIES[name]
        if name == "glm4" and np.any(_list(file, "glm4.rope.dimension_sections")):
            return replace(family, rotary=HALVES)  # of the vision models
        return family
    if name == "clip":
        raise ResourceError(
            f'"{file.name}" holds the eyes of a model (mmproj): give the file of its language model'
        )
    if name in _ENCODERS:
        raise ResourceError(f'"{file.name}" is a model of the architecture "{name}": {_NO_DECODER}')
    if name in MISSING:
        raise ResourceError(
            f'"{file.name}" is a model of the architecture "{name}", which needs {MISSING[name]}; '
            "the engine has no operation for that"
        )
    raise ResourceError(
        f'"{file.name}" is a model of the architecture "{name}", which is not known; known are '
        f"{', '.join(sorted(FAMILIES))}"
    )


def read_decoder(file: GgufFile, context: int = 0) -> Decoder:
    """Read the numbers of a model.

    Args:
        context: tokens that will be served, where a model has frequencies for long and for short
            texts; 0: all that it was made for.

    Raises:
        ResourceError: the model cannot be run, or a value is missing or wrong.
    """
    return _Reader(file, find_family(file)).read(context)


#: Numbers beyond these are damage: no model comes near them, and what is made of them is large.
_MOST: Final = {"block_count": 4096, "embedding_length": 1 << 20, "attention.head_count": 1 << 14}


class _Reader:
    """The values of a file, as its family means them."""

    def __init__(self, file: GgufFile, family: Family) -> None:
        self._file = file
        self._family = family
        self._prefix = f"{file.architecture}."

    def read(self, context: int) -> Decoder:
        family, name = self._family, self._file.architecture
        width = self._count("embedding_length")
        blocks = self._count("block_count") - (self._integer("nextn_predict_layers") or 0)
        if blocks < 1:
            raise self._wrong("nextn_predict_layers", "leaves no layer")
        heads = self._each("attention.head_count", blocks, None)
        kv_heads = self._each("attention.head_count_kv", blocks, heads)
        for number, (queries, keys) in enumerate(zip(heads, kv_heads, strict=True)):
            if queries < 1 or keys < 1 or queries % keys:
                raise self._wrong(
                    "attention.head_count",
                    f"gives layer {number} {queries} heads of queries and {keys} of keys; each "
                    "head of keys must serve the same number of queries, and layers without "
                    "attention cannot be run",
                )
        key_size = self._integer("attention.key_length") or width // max(heads)
        value_size = self._integer("attention.value_length") or width // max(heads)
        windows = self._windows(blocks)
        made_for = self._integer("context_length") or 0
        rotaries = {
            is_window: self._rotary(is_window, key_size, made_for, context)
            for is_window in {window > 0 for window in windows}
        }
        layers = [
            Layer(
                heads[number],
                kv_heads[number],
                key_size,
                value_size,
                windows[number],
                rotaries[windows[number] > 0] if self._rotates(number, windows) else None,
            )
            for number in range(blocks)
        ]
        scale = self._optional("attention.scale")
        if not scale:
            scale = 1 / math.sqrt(key_size)
            if family.attention_scale == "one":
                scale = 1.0
            elif family.attention_scale == "width" and blocks == family.width_scale_layers:
                scale = 1 / math.sqrt(width // heads[0])
        logit_scale = self._optional("logit_scale")
        if name == "minicpm":
            logit_scale = logit_scale or width / 256
        epsilon = "attention.layer_norm_rms_epsilon"
        if family.norm == "layer":
            epsilon = "attention.layer_norm_epsilon"
        temperature = self._optional("attention.temperature_scale")
        original = self._integer("rope.scaling.original_context_length") or made_for
        is_parallel: bool | None = family.parallel == "yes"
        if family.parallel == "value":
            is_parallel = self._file.metadata.flag(self._prefix + "use_parallel_residual", True)
        return Decoder(
            family=family,
            architecture=name,
            width=width,
            layers=layers,
            context=made_for,
            epsilon=self._number(epsilon) or 1e-5,
            is_parallel=bool(is_parallel),
            attention_scale=scale,
            embedding_scale=math.sqrt(width)
            if "width_scale" in family.values
            else self._optional("embedding_scale"),
            residual_scale=self._optional("residual_scale")
            or (1.4 / math.sqrt(blocks) if name == "minicpm" else 0.0),
            logit_scale=1 / logit_scale
            if logit_scale and family.logits == "divide"
            else logit_scale,
            logit_softcap=self._optional("final_logit_softcapping"),
            clamp=self._optional("attention.clamp_kqv"),
            experts=self._experts(),
            temperature=(temperature, original) if temperature and original else None,
        )

    # Single values.

    def _integer(self, key: str) -> int | None:
        value = self._file.metadata.integer(self._prefix + key)
        if value is not None and not 0 <= value < 1 << 31:
            raise self._wrong(key, f"is {value}")
        return value

    def _number(self, key: str) -> float | None:
        return self._file.metadata.number(self._prefix + key)

    def _count(self, key: str) -> int:
        value = self._integer(key)
        most = _MOST.get(key, 1 << 20)
        if not value or value > most:
            raise self._wrong(key, f"must be a whole number from 1 to {most}, not {value}")
        return value

    def _optional(self, key: str) -> float:
        """Return a value that the family declares; 0: absent."""
        if key not in self._family.values:
            return 0.0
        value = self._number(key)
        return self._family.defaults.get(key, 0.0) if value is None else value

    def _each(self, key: str, layers: int, default: list[int] | None) -> list[int]:
        """Return a number for each layer: the file has one for all, or a list."""
        full = self._prefix + key
        if self._file.metadata.length(full) is None:
            value = self._integer(key)
            if value is None and default is not None:
                return default
            return [self._count(key)] * layers if value is None or value == 0 else [value] * layers
        found = [int(each) for each in _list(self._file, full)]
        if len(found) < layers:
            raise self._wrong(key, f"has {len(found)} numbers for {layers} layers")
        return found[:layers]

    def _wrong(self, key: str, what: str) -> ResourceError:
        return ResourceError(f'"{self._file.name}": the value "{self._prefix}{key}" {what}')

    # What several values mean together.

    def _windows(self, layers: int) -> list[int]:
        family = self._family
        key = "attention.sliding_window"
        window = self._integer(key) or int(family.defaults.get(key, 0))
        is_off = family.window_layers and layers != family.window_layers
        if not family.window_period or not window or is_off:
            return [0] * layers
        pattern = self._prefix + "attention.sliding_window_pattern"
        if self._file.metadata.length(pattern) is not None:
            slides = [bool(each) for each in _list(self._file, pattern)]
            if len(slides) < layers:
                raise self._wrong(
                    "attention.sliding_window_pattern", f"is for {len(slides)} layers"
                )
        else:
            period = self._file.metadata.integer(pattern) or family.window_period
            slides = [number % period < period - 1 or period == 1 for number in range(layers)]
        return [window if each else 0 for each in slides[:layers]]

    def _rotates(self, layer: int, windows: list[int]) -> bool:
        family = self._family
        if family.rotary == NO_ROTATION:
            return False
        if family.unrotated_period and (layer + 1) % family.unrotated_period == 0:
            return False
        return not (family.rotates_windows_only and any(windows) and not windows[layer])

    def _experts(self) -> Experts:
        family = self._family
        count = self._integer("expert_count") or 0
        used = self._integer("expert_used_count") or 0
        if count and not 1 <= used <= count:
            raise self._wrong("expert_used_count", f"is {used}, of {count} experts")
        named = {1: "softmax", 2: "sigmoid", 3: "chosen"}
        of_file = self._file.metadata.flag(self._prefix + "expert_weights_norm")
        normed = of_file if family.expert_sum is None else family.expert_sum
        groups = self._integer("expert_group_count") or 0
        groups_used = self._integer("expert_group_used_count") or 0
        if groups > 1 and (count % groups or count // groups < 2 or not 1 <= groups_used <= groups):
            raise self._wrong("expert_group_count", f"is {groups}, of {count} experts")
        return Experts(
            count,
            used,
            named.get(self._integer("expert_gating_func") or 0, family.expert_gating),
            bool(normed),
            self._number("expert_weights_scale") or 0.0,
            groups,
            groups_used,
        )

    def _rotary(self, is_window: bool, size: int, made_for: int, context: int) -> Rotary:
        """Return the rotary embedding of layers with a window, or of the others.

        The scaling of positions is one of frequencies: *linear* divides them, *yarn* divides the
        slow ones, *llama3* and *longrope* have a factor for each in a tensor.
        """
        family = self._family
        numbers = self._integer("rope.dimension_count") or size
        if is_window:
            numbers = self._integer("rope.dimension_count_swa") or numbers
        if family.rotary != NO_ROTATION and numbers % 2:
            raise self._wrong("rope.dimension_count", f"is {numbers}, which is odd")
        base = self._number("rope.freq_base") or 10000.0
        has_own = is_window and bool(family.window_base)
        if is_window:
            base = self._number("rope.freq_base_swa") or family.window_base or base
        half = np.arange(numbers // 2, dtype=np.float64)
        frequencies = base ** (-2 * half / max(numbers, 1))
        if has_own:
            return Rotary(frequencies, 1.0)
        kind = self._file.metadata.text(self._prefix + "rope.scaling.type")
        stretch = self._number("rope.scaling.factor") or self._number("rope.scale_linear") or 0.0
        if kind is None:
            kind = "linear" if stretch else "none"
        slower = 1 / stretch if stretch and kind != "none" else 1.0
        original = self._integer("rope.scaling.original_context_length") or made_for
        frequencies = frequencies / self._factors(len(half), (context or made_for) > original)
        factor = self._number("rope.scaling.attn_factor") or 1.0
        if kind != "yarn":
            return Rotary(frequencies * slower, factor)
        logarithm = math.log(1 / slower) if slower < 1 else 0.0
        # The slow frequencies turn less than `yarn_beta_slow` times in the original length.
        places = [
            numbers * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (
                self._number("rope.scaling.yarn_beta_fast") or 32.0,
                self._number("rope.scaling.yarn_beta_slow") or 1.0,
            )
        ]
        first, last = max(0, math.floor(places[0])), min(numbers - 1, math.ceil(places[1]))
        slow = np.clip((half - first) / max(0.001, last - first), 0, 1)
        kept = self._number("rope.scaling.yarn_ext_factor")
        fast = (1 - slow) * (1.0 if kept is None or kept < 0 else kept)
        frequencies = frequencies * (slower * (1 - fast) + fast)
        factor *= 1 + 0.1 * logarithm
        multiplier = self._number("rope.scaling.yarn_log_multiplier") or 0.0
        if multiplier and family.builder == "latent":
            factor = self._number("rope.scaling.attn_factor") or 1.0  # it is in the scores' scale
        elif multiplier:
            factor /= 1 + 0.1 * multiplier * logarithm
        return Rotary(frequencies, factor)

    def _factors(self, count: int, is_long: bool) -> NDArray[np.float64]:
        name = "rope_freqs.weight"
        if "rope_factors_long.weight" in self._file.tensors:
            name = f"rope_factors_{'long' if is_long else 'short'}.weight"
        tensor = self._file.tensors.get(name)
        if tensor is None or self._family.builder == "gemma4":
            return np.ones(count)
        if tensor.type.name != "F32" or tensor.weights != count:
            raise ResourceError(
                f'"{self._file.name}": the tensor "{name}" must have {count} numbers of float32'
            )
        return np.asarray(tensor.rows()).view("<f4").reshape(-1).astype(np.float64)


def _list(file: GgufFile, key: str) -> Any:
    found = file.metadata.numbers(key)
    return [] if found is None else found
