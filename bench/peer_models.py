"""Models of a benchmark in the forms that other servers load: GGUF and Hugging Face's.

The peers get graphrt's weights, shapes, tokens and chat template, except for the bias of the
attention's output in the example model, for which the peers' Qwen3 has no place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
from numpy.typing import NDArray

from bench.gguf_file import Value, bfloat16, write_gguf
from bench.hugging_face import byte_level_tokenizer, ggml_module, write_hugging_face
from bench.random_model import LARGE, metadata, weights

#: ggml's numbers for kinds of tokens and of files.
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
_FLOAT16_FILE, _BFLOAT16_FILE = 1, 32
#: Splits the words of `bench.workload` as the example's tokenizer does; ggml has no exact
#: equivalent.
_EXAMPLE_PRE_TOKENIZER: Final = "gpt-2"
_MODULE: Final = re.compile(r"__module\.([^/]+)/")


#: Types of matrices.
GGUF_TYPES: Final = ("bf16", "f16")


@dataclass(frozen=True, slots=True)
class PeerModel:
    """A model on disk. ``gguf``: a file for each of `GGUF_TYPES`."""

    gguf: Mapping[str, Path]
    hugging_face: Path


def random_peer_model(directory: Path) -> PeerModel:
    """Make all forms of the large model of `bench.random_model`."""
    values = metadata(LARGE)
    return _write(directory, values, dict(weights(LARGE)), byte_level_tokenizer(values))


def example_peer_model(directory: Path, model: Path) -> PeerModel:
    """Make all forms of a model in OpenVINO's form; ``model`` is its directory."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    template = (model / "chat_template.jinja").read_text(encoding="utf-8")
    arrays = dict(openvino_weights(model / "openvino_model.xml"))
    return _write(directory, gguf_metadata(config, tokenizer, template), arrays, tokenizer)


def openvino_weights(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Return an exported model's weights by ggml's names, without the attention's output bias."""
    for node in openvino.Core().read_model(path).get_ops():
        if node.get_type_name() != "Constant" or node.data.size < 2:
            continue
        for user in _users(node):
            # Weights of norms and biases have no names of their own.
            found = _MODULE.match(user.get_friendly_name())
            module = ggml_module(found[1]) if found else None
            kind = "bias" if user.get_type_name() == "Add" else "weight"
            if module is None or (module.endswith("attn_output") and kind == "bias"):
                continue
            data = node.data.squeeze()
            yield f"{module}.{kind}", data.astype(np.float32 if data.ndim == 1 else np.float16)


def _users(node: Any) -> Iterator[Any]:
    """Return the operations that use a constant, past conversions of its type."""
    for target in node.output(0).get_target_inputs():
        user = target.get_node()
        if user.get_type_name() == "Convert":
            yield from _users(user)
        else:
            yield user


def gguf_metadata(
    config: Mapping[str, Any], tokenizer: Mapping[str, Any], chat_template: str
) -> dict[str, Value]:
    """Return a model's metadata for GGUF, from config.json and tokenizer.json."""
    added = {each["id"]: each for each in tokenizer["added_tokens"]}
    numbered = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    numbered.update((number, each["content"]) for number, each in added.items())
    kinds = {
        number: _CONTROL if each["special"] else _USER_DEFINED for number, each in added.items()
    }
    return {
        "general.architecture": "qwen3",
        "qwen3.block_count": config["num_hidden_layers"],
        "qwen3.context_length": config["max_position_embeddings"],
        "qwen3.embedding_length": config["hidden_size"],
        "qwen3.feed_forward_length": config["intermediate_size"],
        "qwen3.attention.head_count": config["num_attention_heads"],
        "qwen3.attention.head_count_kv": config["num_key_value_heads"],
        "qwen3.attention.key_length": config["head_dim"],
        "qwen3.attention.value_length": config["head_dim"],
        "qwen3.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "qwen3.rope.freq_base": float(config["rope_theta"]),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": _EXAMPLE_PRE_TOKENIZER,
        "tokenizer.ggml.tokens": [numbered[number] for number in range(config["vocab_size"])],
        "tokenizer.ggml.token_type": [
            kinds.get(number, _NORMAL) for number in range(config["vocab_size"])
        ],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": config["pad_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.padding_token_id": config["pad_token_id"],
        "tokenizer.chat_template": chat_template,
    }


def _write(
    directory: Path,
    values: dict[str, Value],
    arrays: Mapping[str, NDArray[Any]],
    tokenizer: Mapping[str, Any],
) -> PeerModel:
    """Write all forms of a model. Matrices in ``arrays`` are float16, vectors float32."""
    hugging_face = directory / "hugging_face"
    write_hugging_face(hugging_face, values, arrays, tokenizer)
    gguf = {name: directory / f"{name}.gguf" for name in GGUF_TYPES}
    rounded = {name: bfloat16(array) if array.ndim > 1 else array for name, array in arrays.items()}
    write_gguf(gguf["f16"], {**values, "general.file_type": _FLOAT16_FILE}, arrays)
    write_gguf(gguf["bf16"], {**values, "general.file_type": _BFLOAT16_FILE}, rounded)
    return PeerModel(gguf, hugging_face)
