"""Checks of a GGUF file by its header: no weights are read, and OpenVINO is not needed.

A builder takes many tensors as they come: a bias that is absent is none. So a file without one of
its tensors could be built, and answer wrongly. Two rules find that:

- each layer has the tensors without which its family is another one (`_needed`);
- a tensor that one layer has is in all layers of the same kind.
"""

from __future__ import annotations

import re
from collections import defaultdict
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


def check_model(path: Path) -> Decoder:
    """Read the headers of a model's files, and check what can be checked without their weights.

    Raises:
        ResourceError: it cannot be run; the text says why.
    """
    return check_file(GgufFile(path))


def check_file(file: GgufFile) -> Decoder:
    """Check a model whose headers are read; see `check_model`."""
    family = find_encoder(file) if pooling_of(file) else None
    decoder = read_decoder(file, family=family)
    for tensor in file.tensors.values():
        check_type(file.name, tensor)
    for key in SAMPLING:
        file.metadata.number(key)
    _check_tensors(file, decoder, is_encoder=family is not None)
    return decoder


#: Tensors of the model itself that a family may declare.
_OF_MODEL: Final = ("output", "token_embd")
#: Tensors that no layer has alone. Scales of single matrices (NVFP4) are not among them.
_OF_ALL: Final = re.compile(
    r"(attn_(q|k|v|qkv|output|sinks)|ffn_(gate|up|down|gate_up)(_exps|_shexp)?|ffn_gate_inp(_shexp)?"
    r"|exp_probs_b|layer_output_scale|\w*norm\w*)\.(weight|bias)"
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
    if not is_encoder:
        _check_shapes(file, decoder)
        anywhere = set().union(*layers)
        for number, names in enumerate(layers):
            for name in _needed(file, decoder, number, names, anywhere):
                if name not in names:
                    raise ResourceError(f'"{file.name}" lacks the tensor "blk.{number}.{name}"')


def _check_shapes(file: GgufFile, decoder: Decoder) -> None:
    """Check heads and widths; the rest is checked where the model is built."""
    width = decoder.width
    shapes = {"token_embd.weight": (file.tensors["token_embd.weight"].row_count, width)}
    if decoder.family.builder == "decoder":
        for number, layer in enumerate(decoder.layers):
            queries, keys = layer.heads * layer.key_size, layer.kv_heads * layer.key_size
            values = layer.kv_heads * layer.value_size
            for part, rows in (
                ("q", queries),
                ("k", keys),
                ("v", values),
                ("qkv", queries + keys + values),
            ):
                shapes[f"blk.{number}.attn_{part}.weight"] = (rows, width)
            of_output = (width, layer.heads * layer.value_size)
            shapes[f"blk.{number}.attn_output.weight"] = of_output
    for name, shape in shapes.items():
        tensor = file.tensors.get(name)
        if tensor is not None and tensor.shape != shape:
            raise ResourceError(
                f'"{file.name}": the tensor "{name}" has the shape {list(tensor.shape)}, and heads '
                f"and widths of the file want {list(shape)}"
            )
    layers = range(len(decoder.layers))
    norms = [f"blk.{number}.{norm}" for number in layers for norm in decoder.family.norms if norm]
    for name in ("output_norm", *norms):
        tensor = file.tensors.get(f"{name}.weight")
        if tensor is not None and tensor.weights != width:
            raise ResourceError(
                f'"{file.name}": the tensor "{tensor.name}" has the shape {list(tensor.shape)}, '
                f"and the file wants {width} numbers"
            )


def _check_layers_are_alike(
    file: GgufFile, decoder: Decoder, layers: Sequence[Set[str]], *, is_encoder: bool
) -> None:
    common = _OF_ENCODERS if is_encoder else _OF_ALL
    kinds: dict[object, list[int]] = defaultdict(list)
    for number, (layer, names) in enumerate(zip(decoder.layers, layers, strict=True)):
        is_gemma = decoder.family.builder == "gemma4"  # values are keys in layers without a window
        of_window = is_gemma and (layer.window > 0, number < _own_caches(file, decoder))
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


def _own_caches(file: GgufFile, decoder: Decoder) -> int:
    """Return how many layers of a Gemma 4 have keys and values of their own."""
    shared = file.metadata.integer(f"{decoder.architecture}.attention.shared_kv_layers") or 0
    return len(decoder.layers) - shared


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
    """True if a Gemma 4 has embeddings for each layer."""
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
            yield from _of_gemma4(names, _has_parts(file), number < _own_caches(file, decoder))
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
