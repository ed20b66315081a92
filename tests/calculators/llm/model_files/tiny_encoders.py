"""Tiny random encoders as GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import Value, write_gguf
from tests.calculators.llm.conversion import vocabularies

_WIDTH, _HEADS, _INNER, _LENGTH = 64, 4, 96, 128
_RANK = 4


def write_encoder(path: Path, name: str, pooling: int) -> Path:
    """Write a model: ``bert``, ``nomic-bert``, ``qwen3`` or ``gemma-embedding``."""
    words = {
        "bert": vocabularies.word_piece,
        "nomic-bert": vocabularies.word_piece,
        "qwen3": vocabularies.byte_level,
        "gemma-embedding": vocabularies.sentencepiece,
    }[name]()
    tokens = words["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    facts: dict[str, Value] = {
        "general.architecture": name,
        f"{name}.context_length": _LENGTH,
        f"{name}.embedding_length": _WIDTH,
        f"{name}.block_count": _layers(name),
        f"{name}.feed_forward_length": _INNER,
        f"{name}.attention.head_count": _HEADS,
        f"{name}.attention.head_count_kv": _HEADS if "bert" in name else 2,
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
    shapes = _shapes(name, len(tokens))
    if pooling == _RANK:
        shapes |= _head(name)
    arrays = {key: _random(chance, key, shape) for key, shape in shapes.items()}
    write_gguf(path, facts, arrays)
    return path


def _head(name: str) -> dict[str, tuple[int, ...]]:
    """Return the head of a model that ranks: one number, or one for yes and one for no."""
    if name != "bert":
        return {"cls.output.weight": (2, _WIDTH)}
    return {
        "cls.weight": (_WIDTH, _WIDTH),
        "cls.bias": (_WIDTH,),
        "cls.output.weight": (1, _WIDTH),
        "cls.output.bias": (1,),
    }


def _layers(name: str) -> int:
    """Return the number of layers: of EmbeddingGemma's the sixth sees everything."""
    return 6 if name == "gemma-embedding" else 2


def _random(chance: np.random.Generator, key: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if "norm" in key and key.endswith("weight"):
        return (1 + 0.1 * chance.standard_normal(shape)).astype(np.float32)
    return (0.2 * chance.standard_normal(shape)).astype(np.float32)


def _shapes(name: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    width, inner = _WIDTH, _INNER
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, width)}
    if "bert" in name:
        found |= {
            "token_types.weight": (2, width),
            "token_embd_norm.weight": (width,),
            "token_embd_norm.bias": (width,),
        }
        if name == "bert":
            found["position_embd.weight"] = (_LENGTH, width)
    else:
        found["output_norm.weight"] = (width,)
    if name == "gemma-embedding":
        found |= {"dense_2.weight": (96, width), "dense_3.weight": (width, 96)}
    for layer in range(_layers(name)):
        found |= {f"blk.{layer}.{key}": each for key, each in _layer(name, width, inner).items()}
    return found


def _layer(name: str, width: int, inner: int) -> dict[str, tuple[int, ...]]:
    if name == "bert":
        found: dict[str, tuple[int, ...]] = {}
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found |= {f"{part}.weight": (width, width), f"{part}.bias": (width,)}
        found |= {
            "ffn_up.weight": (inner, width),
            "ffn_up.bias": (inner,),
            "ffn_down.weight": (width, inner),
            "ffn_down.bias": (width,),
        }
        return found | _norms(("attn_output_norm", "layer_output_norm"), width)
    dense: dict[str, tuple[int, ...]] = {
        "ffn_gate.weight": (inner, width),
        "ffn_up.weight": (inner, width),
        "ffn_down.weight": (width, inner),
    }
    if name == "nomic-bert":
        attention = {"attn_qkv.weight": (3 * width, width), "attn_output.weight": (width, width)}
        return {**attention, **dense, **_norms(("attn_output_norm", "layer_output_norm"), width)}
    found = {
        "attn_q.weight": (width, width),
        "attn_k.weight": (32, width),
        "attn_v.weight": (32, width),
        "attn_output.weight": (width, width),
        "attn_q_norm.weight": (16,),
        "attn_k_norm.weight": (16,),
        "attn_norm.weight": (width,),
        "ffn_norm.weight": (width,),
        **dense,
    }
    if name == "gemma-embedding":
        found |= {"post_attention_norm.weight": (width,), "post_ffw_norm.weight": (width,)}
    return found


def _norms(names: tuple[str, ...], width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{part}": (width,) for name in names for part in ("weight", "bias")}
