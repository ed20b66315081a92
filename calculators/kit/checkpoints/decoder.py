"""The numbers of a decoder: of a GGUF file's values, as its family means them.

`read_decoder` turns the declaration of a family (``families.py``) and the values of a file into a
`Decoder`: the numbers of each layer, with the frequencies of its rotary embedding. The builder
(``builder.py``) reads nothing else, so another kind of file needs another reader of its values, and
no other builder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.kit.checkpoints.families import NO_ROTATION, ModelFamily, find_family
from calculators.kit.checkpoints.gguf import GgufFile
from graphrt_base.errors import ResourceError


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
        kv_heads: 0: the layer is no attention over keys.
        window: tokens that it sees, itself included; 0: all.
        rotary: None: it has none.
    """

    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    window: int
    rotary: Rotary | None


class Latent(NamedTuple):
    """The numbers of latent attention; see `family_builders.LatentBuilder`.

    Attributes:
        size: of the vector that a token's keys and values are made of.
        key, value: sizes of a head.
        scale: of the scores.
    """

    size: int
    key: int
    value: int
    scale: float


class LinearAttention(NamedTuple):
    """The numbers of linear attention; see `family_builders.DeltaBuilder`.

    Attributes:
        size: of the keys and values of a head.
        key_heads, heads: of keys, and of values.
    """

    size: int
    key_heads: int
    heads: int


class Experts(NamedTuple):
    """The numbers of experts.

    Attributes:
        used: of them by a token.
        gating: as in `ModelFamily`.
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
        attention_softcap: of the scores of attention; 0: none, or paged attention leaves it out.
        temperature: of attention by position: scale and length; None: none.
        latent, linear: None: the family has no such layers.
        own_caches: layers that have keys and values of their own; those after them share them.
        part: size of a token's embedding for each layer (Gemma 4); 0: it has none.
    """

    family: ModelFamily
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
    attention_softcap: float
    clamp: float
    experts: Experts
    temperature: tuple[float, int] | None
    latent: Latent | None
    linear: LinearAttention | None
    own_caches: int
    part: int

    @property
    def cached_heads(self) -> dict[tuple[int, int], int]:
        """How many heads of all layers keep keys and values, by the sizes of both."""
        if self.latent is not None:
            turned = max(layer.rotary.numbers if layer.rotary else 0 for layer in self.layers)
            return {(self.latent.size + turned, self.latent.size): len(self.layers)}
        found: dict[tuple[int, int], int] = {}
        for layer in self.layers[: self.own_caches]:
            sizes = layer.key_size, layer.value_size
            if layer.kv_heads:
                found[sizes] = found.get(sizes, 0) + layer.kv_heads
        return found


def read_decoder(
    file: GgufFile, context: int = 0, *, family: ModelFamily | None = None, batches: bool = True
) -> Decoder:
    """Read the numbers of a model.

    Args:
        context: tokens that will be served, where a model has frequencies for long and for short
            texts; 0: all that it was made for.
        family: None: that of the file's architecture.
        batches: for continuous batching, whose paged attention has no soft cap of scores.

    Raises:
        ResourceError: the model cannot be run, or a value is missing or wrong.
    """
    decoder = _DecoderReader(file, family or find_family(file)).read(context)
    return replace(decoder, attention_softcap=0.0) if batches else decoder


#: Numbers beyond these are damage: no model comes near them, and what is made of them is large.
#: Others are at most `_MOST_OF_OTHERS`.
_MOST: Final = {
    "block_count": 4096,
    "embedding_length": 1 << 20,
    "attention.head_count": 1 << 14,
    "context_length": (1 << 31) - 1,
    "rope.scaling.original_context_length": (1 << 31) - 1,
    "attention.sliding_window": (1 << 31) - 1,
}
_MOST_OF_OTHERS: Final = 1 << 20
#: Ways of scaling positions, by ``rope.scaling.type``.
_SCALINGS: Final = ("none", "linear", "yarn", "longrope")


class _DecoderReader:
    """The values of a file, as its family means them."""

    def __init__(self, file: GgufFile, family: ModelFamily) -> None:
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
        if family.builder == "delta":
            kv_heads = self._attention_only(kv_heads)
        for number, (queries, keys) in enumerate(zip(heads, kv_heads, strict=True)):
            if keys == 0 and family.builder in ("convolution", "delta"):
                continue
            if queries < 1 or keys < 1 or queries % keys:
                raise self._wrong(
                    "attention.head_count",
                    f"gives layer {number} {queries} heads of queries and {keys} of keys; each "
                    "head of keys must serve the same number of queries, and layers without "
                    "attention cannot be run",
                )
        key_size = self._integer("attention.key_length") or width // max(heads)
        value_size = self._integer("attention.value_length") or width // max(heads)
        if not (key_size and value_size):
            raise self._wrong(
                "embedding_length", f"is {width}, less than the {max(heads)} heads of a layer"
            )
        of_window = key_size, value_size
        if family.builder == "gemma4":
            of_window = (self._integer("attention.key_length_swa") or key_size,) * 2
            value_size = key_size
        windows = self._windows(blocks)
        latent = self._latent() if family.builder == "latent" else None
        made_for = self._count("context_length")
        if self._file.metadata.length(self._prefix + "feed_forward_length") is None:
            self._integer("feed_forward_length")  # the tensors say it too
        rotaries = {
            is_window: self._rotary(
                is_window, of_window[0] if is_window else key_size, made_for, context
            )
            for is_window in {window > 0 for window in windows}
        }
        layers = [
            Layer(
                heads[number],
                kv_heads[number],
                *(of_window if window else (key_size, value_size)),
                window,
                rotaries[window > 0] if self._rotates(number, windows) else None,
            )
            for number, window in enumerate(windows)
        ]
        for layer in layers:
            most = layer.key_size if latent is None else latent.key - 1
            if layer.kv_heads and layer.rotary is not None and layer.rotary.numbers > most:
                raise self._wrong(
                    "rope.dimension_count",
                    f"is {layer.rotary.numbers}, and at most {most} numbers of a head can rotate",
                )
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
            epsilon=self._positive(epsilon, most=1.0) or 1e-5,
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
            attention_softcap=self._optional("attn_logit_softcapping"),
            clamp=max(0.0, self._optional("attention.clamp_kqv")),
            experts=self._experts(),
            temperature=(temperature, original) if temperature and original else None,
            latent=latent,
            linear=self._linear() if family.builder == "delta" else None,
            own_caches=self._own_caches(windows),
            part=self._integer("embedding_length_per_layer_input") or 0
            if family.builder == "gemma4"
            else 0,
        )

    # Single values.

    def _integer(self, key: str) -> int | None:
        value = self._file.metadata.integer(self._prefix + key)
        return None if value is None else self._checked(key, value, 0)

    def _checked(self, key: str, value: int | None, least: int) -> int:
        most = _MOST.get(key, _MOST_OF_OTHERS)
        if value is None or not least <= value <= most:
            raise self._wrong(key, f"must be a whole number from {least} to {most}, not {value}")
        return value

    def _number(self, key: str) -> float | None:
        return self._file.metadata.number(self._prefix + key)

    def _positive(self, key: str, most: float = math.inf) -> float:
        """Return a number; 0: absent."""
        value = self._number(key) or 0.0
        if value < 0:
            raise self._wrong(key, f"must not be negative, and is {value:g}")
        if value > most:
            raise self._wrong(key, f"must be at most {most:g}, and is {value:g}")
        return value

    def _count(self, key: str) -> int:
        return self._checked(key, self._file.metadata.integer(self._prefix + key), 1)

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
        return self._list(key, layers)

    def _list(self, key: str, layers: int) -> list[int]:
        """Return the first numbers of a list, one for each layer."""
        found = self._file.metadata.integers(self._prefix + key) or []
        if len(found) < layers:
            raise self._wrong(key, f"has {len(found)} numbers for {layers} layers")
        for number, value in enumerate(found[:layers]):
            if not 0 <= value <= _MOST.get(key, _MOST_OF_OTHERS):
                raise self._wrong(key, f"is {value} for layer {number}")
        return found[:layers]

    def _wrong(self, key: str, what: str) -> ResourceError:
        return ResourceError(f'"{self._file.name}": the value "{self._prefix}{key}" {what}')

    # What several values mean together.

    def _attention_only(self, kv_heads: list[int]) -> list[int]:
        """Return the heads of keys, 0 in layers of linear attention: three of four by default."""
        key = self._prefix + "attention.recurrent_layers"
        if self._file.metadata.length(key) is not None:
            linear = [bool(e) for e in self._list("attention.recurrent_layers", len(kv_heads))]
        else:
            period = self._integer("full_attention_interval") or 4
            linear = [(number + 1) % period != 0 for number in range(len(kv_heads))]
        return [0 if each else heads for each, heads in zip(linear, kv_heads, strict=False)]

    def _windows(self, layers: int) -> list[int]:
        family = self._family
        key = "attention.sliding_window"
        window = self._integer(key) or int(family.defaults.get(key, 0))
        # EXAONE 4 has windows only in its model of 64 layers, as llama.cpp reads it.
        is_off = family.window_layers and layers != family.window_layers
        if not family.window_period or not window or is_off:
            return [0] * layers
        pattern = self._prefix + "attention.sliding_window_pattern"
        if self._file.metadata.length(pattern) is not None:
            slides = [bool(e) for e in self._list("attention.sliding_window_pattern", layers)]
        else:
            period = self._integer("attention.sliding_window_pattern") or family.window_period
            full = 0 if family.window_starts_full else period - 1
            slides = [number % period != full or period == 1 for number in range(layers)]
        return [window if each else 0 for each in slides]

    def _rotates(self, layer: int, windows: list[int]) -> bool:
        family = self._family
        if family.rotary == NO_ROTATION:
            return False
        if family.unrotated_period and (layer + 1) % family.unrotated_period == 0:
            return False
        return not (family.rotates_windows_only and any(windows) and not windows[layer])

    def _own_caches(self, windows: list[int]) -> int:
        """Return how many layers have keys and values of their own: the first ones.

        A layer after them shares the cache of the last one of its kind, with or without a window.
        """
        shared = 0
        if self._family.builder == "gemma4":
            shared = self._integer("attention.shared_kv_layers") or 0
        own = len(windows) - shared
        for window in windows[max(own, 0) :]:
            source = own - (2 if window else 1)
            if source < 0 or (windows[source] > 0) != (window > 0):
                raise self._wrong(
                    "attention.shared_kv_layers",
                    f"is {shared}: there is no layer of the same kind whose cache could be shared",
                )
        return own

    def _latent(self) -> Latent:
        size = self._integer("attention.kv_lora_rank") or 0
        key = self._integer("attention.key_length_mla") or 0
        value = self._integer("attention.value_length_mla") or 0
        if not (size and key and value):
            raise ResourceError(
                f'"{self._file.name}" was made before latent attention had its present form (it '
                f'has no "{self._prefix}attention.key_length_mla"); convert the model again'
            )
        if self._number("attention.temperature_scale"):
            raise self._wrong("attention.temperature_scale", "is not built for latent attention")
        stretch = self._positive("rope.scaling.factor")
        multiplier = self._number("rope.scaling.yarn_log_multiplier") or 0.0
        factor = 1.0
        if self._file.metadata.text(self._prefix + "rope.scaling.type") == "yarn" and stretch > 1:
            factor += multiplier * math.log(stretch)
        return Latent(size, key, value, factor * factor / math.sqrt(key))

    def _linear(self) -> LinearAttention:
        size, key_heads, heads, inner = (
            self._integer(f"ssm.{name}") or 0
            for name in ("state_size", "group_count", "time_step_rank", "inner_size")
        )
        if min(size, key_heads, heads, inner) < 1 or inner != heads * size:
            raise self._wrong("ssm.inner_size", f"is {inner}, for {heads} heads of {size} numbers")
        if heads % key_heads:
            raise self._wrong(
                "ssm.time_step_rank", f'is {heads}, no multiple of "ssm.group_count", {key_heads}'
            )
        return LinearAttention(size, key_heads, heads)

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
        base = self._base("rope.freq_base") or 10000.0
        has_own = is_window and bool(family.window_base)
        if is_window:
            base = self._base("rope.freq_base_swa") or family.window_base or base
        half = np.arange(numbers // 2, dtype=np.float64)
        frequencies = base ** (-2 * half / max(numbers, 1))
        if has_own:
            return Rotary(frequencies, 1.0)
        kind = self._file.metadata.text(self._prefix + "rope.scaling.type")
        stretch = (
            self._positive("rope.scaling.factor") or self._positive("rope.scale_linear") or 0.0
        )
        if kind is None:
            kind = "linear" if stretch else "none"
        if kind not in _SCALINGS:
            raise self._wrong("rope.scaling.type", f"is {kind!r}; known are {', '.join(_SCALINGS)}")
        slower = 1 / stretch if stretch and kind != "none" else 1.0
        original = self._integer("rope.scaling.original_context_length") or made_for
        frequencies = frequencies / self._factors(len(half), (context or made_for) > original)
        factor = self._positive("rope.scaling.attn_factor") or 1.0
        if kind != "yarn":
            return Rotary(frequencies * slower, factor)
        logarithm = math.log(1 / slower) if slower < 1 else 0.0
        # The slow frequencies turn less than `yarn_beta_slow` times in the original length.
        places = [
            numbers * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (
                self._positive("rope.scaling.yarn_beta_fast") or 32.0,
                self._positive("rope.scaling.yarn_beta_slow") or 1.0,
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
            factor = self._positive("rope.scaling.attn_factor") or 1.0  # it is in the scores' scale
        elif multiplier:
            factor /= 1 + 0.1 * multiplier * logarithm
        return Rotary(frequencies, factor)

    def _base(self, key: str) -> float:
        value = self._positive(key)
        if 0 < value <= 1:
            raise self._wrong(key, f"must be more than 1, and is {value:g}")
        return value

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
