"""Writer of Qwen3 models as Hugging Face directories, from the data of GGUF files.

Weights have ggml's names, as in `bench.random_model`; metadata has the keys of GGUF.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import Value

#: Hugging Face's names of modules, and ggml's; the first group occurs in each layer.
LAYER_MODULES: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
MODULES: Final = {"embed_tokens": "token_embd", "norm": "output_norm"}

_SAFETENSORS_TYPES: Final = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16"}
#: Patterns that split text before merges, by ggml's name (``tokenizer.ggml.pre``).
_PATTERNS: Final = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
}
_CONTROL: Final = 3


def ggml_module(name: str) -> str | None:
    """ggml's name: ``model.layers.0.self_attn.q_proj`` is ``blk.0.attn_q``; None if unknown."""
    match name.split(".", 3):
        case ["model", "layers", layer, module] if module in LAYER_MODULES:
            return f"blk.{layer}.{LAYER_MODULES[module]}"
        case ["model", module]:
            return MODULES.get(module)
        case _:
            return None


def hugging_face_name(ggml: str) -> str:
    """Inverse of `ggml_module`, for a weight's name; None if unknown."""
    module, _, kind = ggml.rpartition(".")
    if not module.startswith("blk."):
        return f"model.{_key(MODULES, module)}.{kind}"
    _, layer, module = module.split(".")
    return f"model.layers.{layer}.{_key(LAYER_MODULES, module)}.{kind}"


def write_hugging_face(
    directory: Path,
    metadata: Mapping[str, Value],
    weights: Mapping[str, NDArray[Any]],
    tokenizer: Mapping[str, Any],
) -> None:
    """Write all files of a model; ``tokenizer`` is the content of tokenizer.json."""
    directory.mkdir(parents=True, exist_ok=True)
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    end, pad = metadata["tokenizer.ggml.eos_token_id"], metadata["tokenizer.ggml.padding_token_id"]
    assert isinstance(end, int)
    assert isinstance(pad, int)
    files = {
        "config.json": model_config(metadata, biased="blk.0.attn_q.bias" in weights),
        "generation_config.json": {"do_sample": False, "eos_token_id": end, "pad_token_id": pad},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "eos_token": tokens[end],
            "pad_token": tokens[pad],
            "chat_template": metadata["tokenizer.chat_template"],
        },
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    named = {hugging_face_name(name): array for name, array in weights.items()}
    write_safetensors(directory / "model.safetensors", named)


def model_config(metadata: Mapping[str, Value], *, biased: bool) -> dict[str, Any]:
    """Return the config.json of a model whose input and output embeddings are tied."""
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": biased,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "dtype": "bfloat16",
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "head_dim": metadata["qwen3.attention.key_length"],
        "hidden_act": "silu",
        "hidden_size": metadata["qwen3.embedding_length"],
        "intermediate_size": metadata["qwen3.feed_forward_length"],
        "max_position_embeddings": metadata["qwen3.context_length"],
        "num_attention_heads": metadata["qwen3.attention.head_count"],
        "num_hidden_layers": metadata["qwen3.block_count"],
        "num_key_value_heads": metadata["qwen3.attention.head_count_kv"],
        "rms_norm_eps": metadata["qwen3.attention.layer_norm_rms_epsilon"],
        "rope_theta": metadata["qwen3.rope.freq_base"],
        "tie_word_embeddings": True,
        "vocab_size": len(tokens),
    }


def byte_level_tokenizer(metadata: Mapping[str, Value]) -> dict[str, Any]:
    """Return the tokenizer.json of a GGUF file's byte-level BPE.

    Raises:
        KeyError: the way in which it splits text is not known here.
    """
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    pattern = _PATTERNS[str(metadata["tokenizer.ggml.pre"])]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "special": True,
                **dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False),
            }
            for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind == _CONTROL
        ],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": pattern},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {**byte_level, "use_regex": False},
            ],
        },
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write ``tensors`` (float32 or float16, C order) in the safetensors format."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": _SAFETENSORS_TYPES[array.dtype],
            "shape": array.shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).data)


def _key(table: Mapping[str, str], wanted: str) -> str:
    return next(key for key, value in table.items() if value == wanted)
