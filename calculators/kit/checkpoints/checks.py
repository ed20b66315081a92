"""Checks of a GGUF file by its header: no weights are read, and OpenVINO is not needed.

A builder takes many tensors as they come: a bias that is absent is none. So a file without one of
its tensors could be built, and answer wrongly. Two rules find that:

- each layer has the tensors without which its family is another one (`_needed`);
- a tensor that one layer has is in all layers of the same kind.

The builders check the shapes that they read once more, in a process of their own. Here they are
checked too (`_shapes`), so that a server refuses a file at once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from calculators.kit.checkpoints.decoder import Decoder, read_decoder
from calculators.kit.checkpoints.families import find_encoder, pooling_of
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import check_type
from graphrt_base.errors import ResourceError

#: Defaults of requests by GGUF's name, and by that of ``generation_config.json``.
SAMPLING: Final[Mapping[str, str]] = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}
_SMALLEST: Final = 2.0**-20
_ANY: Final = float("inf")
#: The least and the most values of defaults, as ``generation_config.json`` has them.
_RANGES: Final[Mapping[str, tuple[float, float, str]]] = {
    "temperature": (0, _ANY, "at least 0"),
    "top_p": (_SMALLEST, 1, "above 0 and up to 1"),
    "min_p": (0, 1 - 1e-6, "from 0 to below 1"),
    "repetition_penalty": (_SMALLEST, _ANY, "above 0"),
}


def check_model(path: Path) -> Decoder:
    """Read the headers of a model's files, and check what can be checked without their weights.

    Raises:
        ResourceError: it cannot be run; the text says why.
    """
    return check_file(GgufFile(path))


def check_file(file: GgufFile, *, batches: bool = True) -> Decoder:
    """Check a model whose headers are read; see `check_model` and `read_decoder`."""
    family = find_encoder(file) if pooling_of(file) else None
    decoder = read_decoder(file, family=family, batches=batches)
    for tensor in file.tensors.values():
        check_type(file.name, tensor)
    for key, name in SAMPLING.items():
        value = file.metadata.number(key)
        least, most, wanted = _RANGES.get(name, (-_ANY, _ANY, ""))
        if value is not None and not least <= value <= most:
            raise ResourceError(
                f'"{file.name}": the value "{key}" is {value:g}, and must be {wanted}'
            )
    _check_tensors(file, decoder, is_encoder=family is not None)
    return decoder


#: Of a model that ranks: one number, or one for yes and one for no.
_MOST_CLASSES: Final = 2
#: Tensors of the model itself that a family may declare.
_OF_MODEL: Final = ("output", "token_embd")
#: Tensors that no layer has alone. Scales of single matrices (NVFP4) are not among them.
_OF_ALL: Final = re.compile(
    r"(attn_(q|k|v|qkv|output|sinks)|ffn_(gate|up|down|gate_up)(_exps|_shexp)?|ffn_gate_inp(_shexp)?"
    r"|exp_probs_b|layer_output_scale|\w*norm\w*)\.(weight|bias)"
)
#: Norms of a layer that families do not declare.
_FURTHER_NORMS: Final = (
    "attn_norm_2",
    "attn_output_norm",
    "layer_output_norm",
    "post_norm",
    "post_ffw_norm_1",
    "pre_ffw_norm_2",
    "post_ffw_norm_2",
)
#: Layers of an encoder may have other norms (ModernBERT's first) and gates (Jina's).
_OF_ENCODERS: Final = re.compile(r"attn_(q|k|v|qkv|output)\.(weight|bias)")


def _check_tensors(file: GgufFile, decoder: Decoder, *, is_encoder: bool) -> None:
    layers: list[set[str]] = [set() for _ in decoder.layers]
    blocks = file.metadata.integer(f"{decoder.architecture}.block_count") or 0
    for name in file.tensors:
        block, place, rest = (*name.split(".", 2), "", "")[:3]
        if block != "blk" or not place.isdecimal():
            continue
        if int(place) < len(layers):
            layers[int(place)].add(rest)
        # Layers from there to `blocks` predict several tokens at once, and are not used.
        elif int(place) >= blocks:
            raise ResourceError(
                f'"{file.name}" has a tensor that the {blocks} layers of '
                f'"{decoder.architecture}.block_count" do not have: {name}'
            )
    for name in ("token_embd.weight", *(() if is_encoder else _needed_once(file, decoder))):
        if name not in file.tensors:
            raise ResourceError(f'"{file.name}" lacks the tensor "{name}"')
    _check_layers_are_alike(file, decoder, layers, is_encoder=is_encoder)
    _check_shapes(file, decoder)
    head = file.tensors.get("cls.output.weight")
    if head is not None and head.row_count > _MOST_CLASSES and pooling_of(file) == "RANK":
        raise ResourceError(
            f'"{file.name}" has {head.row_count} classes, and a model that ranks has one number'
        )
    if not is_encoder:
        anywhere = set().union(*layers)
        for number, names in enumerate(layers):
            for name in _needed(file, decoder, number, names, anywhere):
                if name not in names:
                    raise ResourceError(f'"{file.name}" lacks the tensor "blk.{number}.{name}"')


Shape = tuple[int, ...]


def _check_shapes(file: GgufFile, decoder: Decoder) -> None:
    """Check that all tensors fit together, as the builders will put them together."""
    for name, shape in _shapes(file, decoder):
        if name in file.tensors:
            _check_shape(file, name, shape)
    for number, layer in enumerate(decoder.layers):
        for part, heads in (("q", layer.heads), ("k", layer.kv_heads)):
            norm = f"blk.{number}.attn_{part}_norm.weight"
            if norm in file.tensors and file.tensors[norm].weights != heads * layer.key_size:
                _check_shape(file, norm, (layer.key_size,))
    positions = file.tensors.get("position_embd.weight")
    if positions is not None and (
        positions.shape[1:] != (decoder.width,) or positions.shape[0] < decoder.context
    ):
        wanted = f"{decoder.context} rows or more of {decoder.width} numbers"
        raise _wrong_shape(file, positions.name, wanted)
    for name in file.tensors:
        of = file.tensors.get(f"{name.removesuffix('bias')}weight")
        if name.endswith(".bias") and of is not None:
            is_norm = len(of.shape) == 1 or "norm" in name
            _check_shape(file, name, of.shape if is_norm else of.shape[:-1])


def _check_shape(file: GgufFile, name: str, wanted: Shape) -> None:
    shape = file.tensors[name].shape
    while len(wanted) == 1 < len(shape) and shape[0] == 1:  # a vector may be a row
        shape = shape[1:]
    if shape != wanted:
        raise _wrong_shape(file, name, f"the shape {list(wanted)}")


def _wrong_shape(file: GgufFile, name: str, wanted: str) -> ResourceError:
    return ResourceError(
        f'"{file.name}": the tensor "{name}" has the shape {list(file.tensors[name].shape)}, and '
        f"the rest of the file wants {wanted}"
    )


def _shapes(file: GgufFile, decoder: Decoder) -> Iterator[tuple[str, Shape]]:
    """Yield the shapes that tensors must have if they are there, rows first."""
    width, tensors = decoder.width, file.tensors
    rows = tensors["token_embd.weight"].row_count
    yield "token_embd.weight", (rows, width)
    yield "output.weight", (rows, width)
    for name in ("token_embd_norm", "output_norm", "enc.output_norm", "cls.norm"):
        yield f"{name}.weight", (width,)
    yield "cls.weight", (width if "cls.output.weight" in tensors else 1, width)
    for name in ("token_types", "cls.output", "dense_2"):
        if f"{name}.weight" in tensors:
            yield f"{name}.weight", (tensors[f"{name}.weight"].row_count, width)
    if "dense_2.weight" in tensors and "dense_3.weight" in tensors:
        columns = tensors["dense_2.weight"].row_count
        yield "dense_3.weight", (tensors["dense_3.weight"].row_count, columns)
    parts = len(decoder.layers) * decoder.part
    yield "per_layer_token_embd.weight", (rows, parts)
    yield "per_layer_model_proj.weight", (parts, width)
    yield "per_layer_proj_norm.weight", (decoder.part,)
    for number, layer in enumerate(decoder.layers):
        if layer.rotary is not None:
            for kind in ("long", "short"):
                yield f"rope_factors_{kind}.weight", (len(layer.rotary.frequencies),)
        if decoder.family.builder == "gemma4" and not layer.window and layer.rotary is not None:
            yield "rope_freqs.weight", (len(layer.rotary.frequencies),)
        blk = f"blk.{number}."
        for name, shape in (
            *_shapes_of_attention(file, decoder, number),
            *_shapes_of_feed_forward(file, decoder, blk),
        ):
            yield blk + name, shape


def _shapes_of_attention(
    file: GgufFile, decoder: Decoder, number: int
) -> Iterator[tuple[str, Shape]]:
    width, layer, blk = decoder.width, decoder.layers[number], f"blk.{number}."
    queries, keys = layer.heads * layer.key_size, layer.kv_heads * layer.key_size
    values = layer.kv_heads * layer.value_size
    of_output = layer.heads * layer.value_size
    yield "attn_sinks.weight", (layer.heads,)
    if decoder.latent is not None:
        latent, turned = decoder.latent, layer.rotary.numbers if layer.rotary is not None else 0
        queries, of_output = layer.heads * latent.key, layer.heads * latent.value
        yield "attn_kv_a_mqa.weight", (latent.size + turned, width)
        yield "attn_kv_a_norm.weight", (latent.size,)
        yield "attn_k_b.weight", (layer.heads, latent.size, latent.key - turned)
        yield "attn_v_b.weight", (layer.heads, latent.value, latent.size)
        if f"{blk}attn_q_a.weight" in file.tensors:
            rows = file.tensors[f"{blk}attn_q_a.weight"].row_count
            yield "attn_q_a.weight", (rows, width)
            yield "attn_q_a_norm.weight", (rows,)
            yield "attn_q_b.weight", (queries, rows)
    elif decoder.linear is not None and not layer.kv_heads:
        size, key_heads, heads = decoder.linear
        inner, channels = heads * size, (2 * key_heads + heads) * size
        yield "attn_qkv.weight", (channels, width)
        yield "attn_gate.weight", (inner, width)
        yield from _of_convolution(file, f"{blk}ssm_conv1d.weight", channels, "ssm.conv_kernel")
        yield from (("ssm_dt.bias", (heads,)), ("ssm_a", (heads,)), ("ssm_norm.weight", (size,)))
        yield "ssm_out.weight", (width, inner)
        yield from ((f"ssm_{name}.weight", (heads, width)) for name in ("beta", "alpha"))
        yield "ssm_ba.weight", (2 * heads, width)
        return
    elif not layer.kv_heads:
        yield "shortconv.in_proj.weight", (3 * width, width)
        name = f"{blk}shortconv.conv.weight"
        yield from _of_convolution(file, name, width, "shortconv.l_cache")
        yield "shortconv.out_proj.weight", (width, width)
        return
    elif number < decoder.own_caches:
        yield "attn_qkv.weight", (queries + keys + values, width)
        yield "attn_k.weight", (keys, width)
        yield "attn_v.weight", (values, width)
    # With a gate for each query.
    yield "attn_q.weight", (queries if decoder.linear is None else 2 * queries, width)
    yield "attn_output.weight", (width, of_output)


def _of_convolution(
    file: GgufFile, name: str, channels: int, key: str
) -> Iterator[tuple[str, Shape]]:
    if name in file.tensors:
        length = file.metadata.integer(f"{file.architecture}.{key}")
        yield name.split(".", 2)[2], (channels, length or max(2, file.tensors[name].shape[-1]))


def _shapes_of_feed_forward(
    file: GgufFile, decoder: Decoder, blk: str
) -> Iterator[tuple[str, Shape]]:
    width, experts = decoder.width, decoder.experts.number
    for name in (*decoder.family.norms, *_FURTHER_NORMS):
        yield f"{name}.weight", (width,)
    yield "layer_output_scale.weight", (1,)
    yield "inp_gate.weight", (decoder.part, width)
    yield "proj.weight", (width, decoder.part)
    yield "ffn_gate_inp.weight", (experts, width)
    yield "ffn_gate_inp.scale", (width,)
    yield "ffn_gate_inp_shexp.weight", (width,)
    yield "exp_probs_b.bias", (experts,)
    for suffix in ("", "_shexp", "_exps"):
        gate, up, down, both = (
            file.tensors.get(f"{blk}ffn_{part}{suffix}.weight")
            for part in ("gate", "up", "down", "gate_up")
        )
        lead = (experts,) if suffix == "_exps" else ()
        is_joined = (
            decoder.family.has_gate
            and gate is None
            and up is not None
            and down is not None
            and up.shape[-2:-1] == (2 * down.shape[-1],)
        )
        inner = Counter(
            tensor.shape[place] // (2 if tensor is both or (tensor is up and is_joined) else 1)
            for tensor, place in ((down, -1), (up, -2), (gate, -2), (both, -2))
            if tensor is not None and len(tensor.shape) > 1
        )
        # The one that differs from two others is wrong.
        for size, _ in inner.most_common(1):
            yield f"ffn_gate{suffix}.weight", (*lead, size, width)
            yield f"ffn_up{suffix}.weight", (*lead, size * (2 if is_joined else 1), width)
            yield f"ffn_gate_up{suffix}.weight", (*lead, 2 * size, width)
            yield f"ffn_down{suffix}.weight", (*lead, width, size)


def _check_layers_are_alike(
    file: GgufFile, decoder: Decoder, layers: Sequence[Set[str]], *, is_encoder: bool
) -> None:
    common = _OF_ENCODERS if is_encoder else _OF_ALL
    kinds: dict[object, list[int]] = defaultdict(list)
    for number, (layer, names) in enumerate(zip(decoder.layers, layers, strict=True)):
        is_gemma = decoder.family.builder == "gemma4"  # values are keys in layers without a window
        of_window = is_gemma and (layer.window > 0, number < decoder.own_caches)
        kinds[_has_experts(names), layer.kv_heads > 0, of_window].append(number)
    for numbers in kinds.values():
        union = {
            name: number for number in numbers for name in layers[number] if common.fullmatch(name)
        }
        for number in filter(layers.__getitem__, numbers):
            for name in sorted(union.keys() - layers[number]):
                raise ResourceError(
                    f'"{file.name}" lacks the tensor "blk.{number}.{name}", which layer '
                    f"{union[name]} has"
                )


def _has_experts(names: Set[str]) -> bool:
    return any("_exps." in name or name == "ffn_gate_inp.weight" for name in names)


def _has_shared_expert(names: Set[str]) -> bool:
    return any("_shexp." in name for name in names)


def _needed_once(file: GgufFile, decoder: Decoder) -> Iterator[str]:
    family = decoder.family
    if family.norms_have_weights:
        name = "token_embd_norm" if family.builder == "convolution" else "output_norm"
        yield f"{name}.weight"
    if family.positions == "learned":
        yield "position_embd.weight"
    has_output = not pooling_of(file)
    for name in sorted(family.tensors):
        if name.startswith(_OF_MODEL) and (has_output or not name.startswith("output.")):
            yield name
    if family.builder == "gemma4":
        if any(layer.window == 0 for layer in decoder.layers):
            yield "rope_freqs.weight"
        if _has_parts(file):
            yield from (f"per_layer_{name}.weight" for name in ("token_embd", "model_proj"))
            yield "per_layer_proj_norm.weight"
    if any(name.startswith("rope_factors_") for name in file.tensors):
        yield from ("rope_factors_long.weight", "rope_factors_short.weight")


def _has_parts(file: GgufFile) -> bool:
    """Return True if a Gemma 4 has embeddings for each layer."""
    return "per_layer_token_embd.weight" in file.tensors or "blk.0.inp_gate.weight" in file.tensors


def _needed(
    file: GgufFile, decoder: Decoder, number: int, names: Set[str], anywhere: Set[str]
) -> Iterator[str]:
    """Yield the tensors that a layer needs, without the beginning of their names.

    Args:
        names: the tensors that it has.
        anywhere: the tensors of all layers, which tell a family's forms apart.
    """
    family, layer = decoder.family, decoder.layers[number]
    if family.norms_have_weights:
        for norm in family.norms:
            is_optional = family.parallel == "unnormed" and norm == family.norms.before_feed_forward
            if norm and not is_optional:
                yield f"{norm}.weight"
    match family.builder:
        case "latent":
            yield from _of_latent_attention(anywhere)
        case "gemma4":
            yield from _of_gemma4(names, _has_parts(file), number < decoder.own_caches)
        case "convolution" if not layer.kv_heads:
            yield from (f"shortconv.{name}.weight" for name in ("in_proj", "conv", "out_proj"))
        case "delta" if not layer.kv_heads:
            yield from ("attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight")
            yield from ("ssm_dt.bias", "ssm_a", "ssm_norm.weight", "ssm_out.weight")
            if "ssm_ba.weight" in anywhere:
                yield "ssm_ba.weight"
            else:
                yield from ("ssm_beta.weight", "ssm_alpha.weight")
        case _:
            yield from _of_attention(family.builder != "delta" and "attn_qkv.weight" in anywhere)
            if family.norms_queries:
                yield from ("attn_q_norm.weight", "attn_k_norm.weight")
    for name in sorted(family.tensors):
        if name == "exp_probs_b.bias":
            is_needed = _has_experts(names)
        elif name == "ffn_gate_inp_shexp.weight":
            is_needed = _has_shared_expert(names)
        else:
            is_needed = not name.endswith(".bias") or f"{name.removesuffix('bias')}weight" in names
        if is_needed and not name.startswith(_OF_MODEL):
            yield name
    if _has_experts(names):
        yield from ("ffn_gate_inp.weight", "ffn_down_exps.weight")
        if "ffn_gate_up_exps.weight" in anywhere:
            yield "ffn_gate_up_exps.weight"
        else:
            yield from ("ffn_up_exps.weight", "ffn_gate_exps.weight")
        if _has_shared_expert(names):
            yield from (f"ffn_{part}_shexp.weight" for part in ("up", "gate", "down"))
    if not _has_experts(names) or family.builder == "gemma4":
        yield from ("ffn_up.weight", "ffn_down.weight")
        up, down = (file.tensors.get(f"blk.{number}.ffn_{part}.weight") for part in ("up", "down"))
        is_joined = up is not None and down is not None and up.shape[0] == 2 * down.shape[-1]
        if family.has_gate and not is_joined:
            yield "ffn_gate.weight"


def _of_attention(is_fused: bool) -> Iterator[str]:
    if is_fused:
        yield "attn_qkv.weight"
    else:
        yield from ("attn_q.weight", "attn_k.weight", "attn_v.weight")
    yield "attn_output.weight"


def _of_latent_attention(anywhere: Set[str]) -> Iterator[str]:
    if "attn_q.weight" in anywhere:
        yield "attn_q.weight"
    else:
        yield from ("attn_q_a.weight", "attn_q_a_norm.weight", "attn_q_b.weight")
    yield from ("attn_kv_a_mqa.weight", "attn_kv_a_norm.weight", "attn_output.weight")
    if "attn_kv_b.weight" not in anywhere:  # of an older form, which the builder refuses
        yield from ("attn_k_b.weight", "attn_v_b.weight")


def _of_gemma4(names: Set[str], has_parts: bool, has_cache: bool) -> Iterator[str]:
    yield from ("attn_q.weight", "attn_q_norm.weight", "attn_output.weight")
    if has_cache:
        yield from ("attn_k.weight", "attn_k_norm.weight")
    if has_parts:
        yield from ("inp_gate.weight", "proj.weight", "post_norm.weight")
    if _has_experts(names):
        yield from (f"{norm}.weight" for norm in ("post_ffw_norm_1", "pre_ffw_norm_2"))
        yield from ("post_ffw_norm_2.weight", "ffn_gate_inp.scale")
