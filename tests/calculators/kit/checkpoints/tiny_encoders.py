"""Tiny random encoders as GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import Value, write_gguf
from tests.calculators.kit.checkpoints import vocabularies

_WIDTH, _HEADS, _INNER, _LENGTH = 64, 4, 96, 128
_RANK = 4
_EXPERTS = 4
#: Models whose keys serve several queries, and models with norms before the parts of a layer.
_GROUPED = ("qwen3", "gemma-embedding", "eurobert")
_NORMED_FIRST = ("modern-bert", "neo-bert", "eurobert")


def write_encoder(path: Path, name: str, pooling: int) -> Path:
    """Write a model: ``qwen3``, or of an architecture of `ENCODERS`."""
    words = {
        "qwen3": vocabularies.byte_level,
        "eurobert": vocabularies.byte_level,
        "modern-bert": lambda: vocabularies.byte_level("modern-bert"),
        "nomic-bert-moe": vocabularies.unigram,
        "gemma-embedding": vocabularies.sentencepiece,
    }.get(name, vocabularies.word_piece)()
    tokens = words["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    facts: dict[str, Value] = {
        "general.architecture": name,
        f"{name}.context_length": _LENGTH,
        f"{name}.embedding_length": _WIDTH,
        f"{name}.block_count": _layers(name),
        f"{name}.feed_forward_length": _INNER,
        f"{name}.attention.head_count": _HEADS,
        f"{name}.attention.head_count_kv": 2 if name in _GROUPED else _HEADS,
        f"{name}.pooling_type": pooling,
        **words,
    }
    if "bert" in name:
        facts |= {
            f"{name}.attention.layer_norm_epsilon": 1e-12,
            f"{name}.attention.causal": False,
            "tokenizer.ggml.token_type_count": 2,
        }
        if name == "nomic-bert":
            facts[f"{name}.rope.freq_base"] = 1000.0
        elif name == "nomic-bert-moe":
            facts |= {f"{name}.moe_every_n_layers": 2, f"{name}.expert_count": _EXPERTS}
            facts |= {f"{name}.expert_used_count": 2, f"{name}.rope.freq_base": 10000.0}
        elif name == "modern-bert":
            facts |= {f"{name}.attention.sliding_window": 8, f"{name}.rope.freq_base": 160000.0}
            facts[f"{name}.rope.freq_base_swa"] = 10000.0
        elif name in ("neo-bert", "eurobert", "jina-bert-v3"):
            facts |= {f"{name}.rope.freq_base": 10000.0}
            facts[f"{name}.attention.layer_norm_rms_epsilon"] = 1e-6
    else:
        facts |= {
            f"{name}.attention.layer_norm_rms_epsilon": 1e-6,
            f"{name}.attention.key_length": 16,
            f"{name}.attention.value_length": 16,
            f"{name}.rope.freq_base": 10000.0,
        }
        if name == "gemma-embedding":
            facts[f"{name}.attention.sliding_window"] = 8
            facts |= {f"{name}.dense_2_feat_in": _WIDTH, f"{name}.dense_2_feat_out": _INNER}
            facts |= {f"{name}.dense_3_feat_in": _INNER, f"{name}.dense_3_feat_out": _WIDTH}
    chance = np.random.default_rng(3)
    if name in ("modern-bert", "eurobert"):
        facts |= {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_sep_token": True}
        facts["tokenizer.ggml.seperator_token_id"] = len(tokens) - 4
    shapes = _shapes(name, len(tokens))
    if pooling == _RANK:
        shapes |= _head(name)
    arrays = {key: _random(chance, key, shape) for key, shape in shapes.items()}
    write_gguf(path, facts, arrays)
    return path


def _head(name: str) -> dict[str, tuple[int, ...]]:
    """Return the head of a model that ranks: one number, or one for yes and one for no."""
    match name:
        case "bert":
            return {
                "cls.weight": (_WIDTH, _WIDTH),
                "cls.bias": (_WIDTH,),
                "cls.output.weight": (1, _WIDTH),
                "cls.output.bias": (1,),
            }
        case "modern-bert":
            return {
                "cls.weight": (_WIDTH, _WIDTH),
                "cls.norm.weight": (_WIDTH,),
                "cls.output.weight": (1, _WIDTH),
                "cls.output.bias": (1,),
            }
        case "jina-bert-v2":
            return {"cls.weight": (1, _WIDTH), "cls.bias": (1,)}
        case _:
            return {"cls.output.weight": (2, _WIDTH)}


def _layers(name: str) -> int:
    """Return the number of layers: of EmbeddingGemma's the sixth sees everything."""
    return {"gemma-embedding": 6, "modern-bert": 4}.get(name, 2)


def _random(chance: np.random.Generator, key: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if "norm" in key and key.endswith("weight"):
        return (1 + 0.1 * chance.standard_normal(shape)).astype(np.float32)
    return (0.2 * chance.standard_normal(shape)).astype(np.float32)


def _shapes(name: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    width = _WIDTH
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, width)}
    if name in _NORMED_FIRST or "bert" not in name:
        found["enc.output_norm.weight" if name == "neo-bert" else "output_norm.weight"] = (width,)
    else:
        found["token_types.weight"] = (2, width)
        found |= _norms(("token_embd_norm",), width)
    if name == "modern-bert":
        found["token_embd_norm.weight"] = (width,)
    if name == "bert":
        found["position_embd.weight"] = (_LENGTH, width)
    if name == "gemma-embedding":
        found |= {"dense_2.weight": (_INNER, width), "dense_3.weight": (width, _INNER)}
    for layer in range(_layers(name)):
        found |= {f"blk.{layer}.{key}": each for key, each in _layer(name, layer).items()}
    return found


def _layer(name: str, number: int) -> dict[str, tuple[int, ...]]:
    width, inner = _WIDTH, _INNER
    dense: dict[str, tuple[int, ...]] = {
        "ffn_gate.weight": (inner, width),
        "ffn_up.weight": (inner, width),
        "ffn_down.weight": (width, inner),
    }
    attention = {"attn_qkv.weight": (3 * width, width), "attn_output.weight": (width, width)}
    around = _norms(("attn_output_norm", "layer_output_norm"), width)
    before: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (width,),
        "ffn_norm.weight": (width,),
    }
    joined = {"ffn_up.weight": (2 * inner, width), "ffn_down.weight": (width, inner)}
    biased = _biased(("attn_q", "attn_k", "attn_v", "attn_output"), width, width)
    plain = {**_biased(("ffn_up",), inner, width), **_biased(("ffn_down",), width, inner)}
    match name:
        case "bert":
            return {**biased, **plain, **around}
        case "jina-bert-v2":
            # The second layer has what models for code have besides.
            more = _norms(("attn_q_norm", "attn_k_norm", "attn_norm_2"), width) if number else {}
            ends = {"ffn_down.bias": (width,)}
            return {**biased, **(joined if number else dense), **ends, **around, **more}
        case "jina-bert-v3":
            return {**_biased(("attn_qkv",), 3 * width, width), **attention, **plain, **around}
        case "nomic-bert":
            return {**attention, **dense, **around}
        case "nomic-bert-moe":
            biases = {"attn_qkv.bias": (3 * width,), "attn_output.bias": (width,)}
            experts = {
                "ffn_gate_inp.weight": (_EXPERTS, width),
                "ffn_up_exps.weight": (_EXPERTS, inner, width),
                "ffn_down_exps.weight": (_EXPERTS, width, inner),
            }
            return {**attention, **biases, **(experts if number else plain), **around}
        case "modern-bert":
            norms = before if number else {"ffn_norm.weight": (width,)}
            return {**attention, **joined, **norms}
        case "neo-bert":
            return {**attention, **joined, **before}
        case _:
            return _decoder_layer(name, {**before, **dense})


def _decoder_layer(name: str, rest: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    # The numbers follow from the order.
    width = _WIDTH
    found: dict[str, tuple[int, ...]] = {
        "attn_q.weight": (width, width),
        "attn_k.weight": (32, width),
        "attn_v.weight": (32, width),
        "attn_output.weight": (width, width),
    }
    if name != "eurobert":
        found |= {"attn_q_norm.weight": (16,), "attn_k_norm.weight": (16,)}
    found |= rest
    if name == "gemma-embedding":
        found |= {"post_attention_norm.weight": (width,), "post_ffw_norm.weight": (width,)}
    return found


def _biased(names: tuple[str, ...], rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        found |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    return found


def _norms(names: tuple[str, ...], width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{part}": (width,) for name in names for part in ("weight", "bias")}
