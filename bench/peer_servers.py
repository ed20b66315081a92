"""Other servers of the OpenAI API, to be measured beside `graphrt serve`, and their settings.

Each has its fastest settings: no prefix caching (no two prompts of the workload share a prefix), no
parsing of answers, 64 streams at once, weights of 16 bits.

Their models are in the forms that they load, GGUF and Hugging Face's: the peers get graphrt's
weights, shapes, tokens and chat template, except for the bias of the
attention's output in the example model, for which the peers' Qwen3 has no place.

Qwen3 models are written as Hugging Face directories from the data of GGUF files. Weights have
ggml's names, as in `bench.random_model`; metadata has the keys of GGUF.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
from numpy.typing import NDArray

from bench.gguf_file import Value, bfloat16, write_gguf, write_safetensors
from bench.machine import OtherServer, ServerProcess
from bench.random_model import LARGE, metadata, weights

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

#: Patterns that split text before merges, by ggml's name (``tokenizer.ggml.pre``).
_PATTERNS: Final = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
}
_CONTROL_BYTES: Final = 3


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
            if kind == _CONTROL_BYTES
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


def _key(table: Mapping[str, str], wanted: str) -> str:
    return next(key for key, value in table.items() if value == wanted)


#: ggml's numbers for kinds of tokens and of files.
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
_FLOAT16_FILE, _BFLOAT16_FILE = 1, 32
#: Splits the words of `bench.load_generator` as the example's tokenizer does; ggml has no exact
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


STREAMS: Final = 64
#: Tokens of the longest request of `bench.load_generator`, with some room.
CONTEXT: Final = 2048
_MODEL: Final = "model"
_GIBIBYTES_OF_CACHE: Final = "4"


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to start a server. ``reconnect``: every request needs a new connection."""

    server: str
    words: str
    start: Callable[[], ServerProcess | OtherServer]
    reconnect: bool = False


def graphrt(directory: Path) -> list[Setting]:
    """Return the settings of graphrt: those of the graph in the directory."""
    return [Setting("graphrt", "as its graph says", partial(ServerProcess, directory))]


def llama_cpp(program: Path, model: PeerModel, types: Sequence[str]) -> list[Setting]:
    """Return the settings of llama-server: all cores or one less, by type of matrices."""

    def setting(kind: str, threads: int) -> Setting:
        command = [
            *(str(program), "--model", str(model.gguf[kind]), "--alias", _MODEL),
            *("--parallel", str(STREAMS), "--ctx-size", str(STREAMS * CONTEXT)),
            *("--threads", str(threads), "--no-cache-prompt", "--cache-ram", "0", "--no-ui"),
            *("--skip-chat-parsing", "--reasoning", "off", "--log-verbosity", "1"),
        ]
        start = partial(OtherServer, command, model=_MODEL)
        # llama-server closes the connection after a streamed answer whose head says keep-alive.
        return Setting("llama.cpp", f"{kind}, -t {threads}", start, reconnect=True)

    cores = len(os.sched_getaffinity(0))
    threads = (cores, cores - 1) if cores > 1 else (cores,)
    return [setting(kind, number) for kind in types for number in threads]


def vllm(program: Path, model: PeerModel, scratch: Path) -> list[Setting]:
    """Return the settings of vLLM: its own choice of compute threads, and one per core.

    Compiled code is kept in ``scratch`` for the next start.
    """

    def setting(words: str, bind: str) -> Setting:
        command = [
            *(str(program), "serve", str(model.hugging_face), "--served-model-name", _MODEL),
            *("--dtype", "bfloat16", "--max-num-seqs", str(STREAMS)),
            *("--max-model-len", str(CONTEXT), "--no-enable-prefix-caching"),
            *("--generation-config", "vllm", "--disable-uvicorn-access-log"),
        ]
        environment = {
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_OMP_THREADS_BIND": bind,
            "VLLM_CPU_KVCACHE_SPACE": _GIBIBYTES_OF_CACHE,
            "VLLM_CACHE_ROOT": str(scratch / "vllm"),
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return Setting("vLLM", words, partial(OtherServer, command, environment, model=_MODEL))

    cores = sorted(os.sched_getaffinity(0))
    every = ",".join(map(str, cores))
    return [
        setting("bfloat16, threads: auto", "auto"),
        setting(f"bfloat16, {len(cores)} threads", every),
    ]
