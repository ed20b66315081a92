"""Whisper in CTranslate2's form (faster-whisper) to OpenVINO's: ``python -m ... SOURCE TARGET``.

``SOURCE`` is a directory with ``model.bin``, ``config.json`` and ``tokenizer.json``; ``TARGET``
becomes one that openvino-genai's Whisper reads. The conversion runs in a process of its own, and
needs neither torch nor transformers. Weights are written in 16 bits.

The decoder has four states per layer: keys and values of the tokens so far, and keys and values of
the sound, which its first call makes and later calls only read.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset15 as op
from openvino.op.util import Variable, VariableInfo

from calculators.kit.checkpoints.tokenizer_graph import write_tokenizer
from calculators.kit.checkpoints.vocabulary import TokenType, Vocabulary
from calculators.kit.checkpoints.weights import whole

Floats: TypeAlias = NDArray[np.float32]

#: CTranslate2's numbers of types (``include/ctranslate2/types.h``).
_TYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_HEAD_SIZE: Final = 64
_EPSILON: Final = 1e-5
#: Tokens of a model that knows English only; further ones are languages.
_ENGLISH_TOKENS: Final = 51864
END: Final = "<|endoftext|>"
#: The first of the tokens that are times, 0.02 s apart.
_SECONDS_OF_STEP: Final = 0.02


def convert(source: Path, target: Path) -> None:
    """Write the directory of a model, which must exist.

    Raises:
        OSError: a file cannot be read or written.
        KeyError, ValueError: the files are not a Whisper of CTranslate2.
    """
    with (source / "model.bin").open("rb") as file:
        weights = renamed(read_variables(file))
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    ids = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    config = model_config(weights, ids)
    for name, value in {
        "config.json": config,
        "generation_config.json": generation_config(settings, ids, config["vocab_size"]),
        "preprocessor_config.json": preprocessing(weights),
    }.items():
        (target / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    write_tokenizer(_vocabulary(tokenizer, config["vocab_size"]), target, "tokenizer.json")
    builder = _Builder(weights, config["encoder_attention_heads"])
    ov.save_model(builder.encoder(config["encoder_layers"]), target / "openvino_encoder_model.xml")
    ov.save_model(builder.decoder(config["decoder_layers"]), target / "openvino_decoder_model.xml")


def read_variables(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read CTranslate2's model.bin: version, specification, variables, and names for some."""

    def number(form: str) -> int:
        return int(struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0])

    def text() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    number("I")
    text()
    number("I")
    variables: dict[str, NDArray[Any]] = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        form = _TYPES[number("B")]
        variables[name] = np.frombuffer(file.read(number("I")), form).reshape(shape)
    for _ in range(number("I")):
        alias = text()
        variables[alias] = variables[text()]
    return variables


def renamed(variables: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """Return transformers' weights: attention in three parts, layers by their names."""
    made: dict[str, Floats] = {}

    def weight(name: str) -> Floats:
        value = variables[f"{name}/weight"]
        if value.dtype == np.int8:
            scale = variables[f"{name}/weight_scale"].astype(np.float32)
            return value.astype(np.float32) / scale.reshape(-1, *[1] * (value.ndim - 1))
        return value.astype(np.float32)

    def linear(name: str, *targets: str) -> None:
        """One matrix of several layers, one above the other."""
        whole = weight(name)
        bias = variables.get(f"{name}/bias")
        rows = len(whole) // len(targets)
        for place, target in enumerate(targets):
            part = slice(place * rows, (place + 1) * rows)
            made[f"{target}.weight"] = whole[part]
            # Whisper's keys have no bias; the joined vector has zeros there.
            if bias is not None and not target.endswith("k_proj"):
                made[f"{target}.bias"] = bias.astype(np.float32)[part]

    def norm(name: str, target: str) -> None:
        made[f"{target}.weight"] = variables[f"{name}/gamma"].astype(np.float32)
        made[f"{target}.bias"] = variables[f"{name}/beta"].astype(np.float32)

    for side in ("encoder", "decoder"):
        number = 0
        while f"{side}/layer_{number}/ffn/linear_0/weight" in variables:
            source, target = f"{side}/layer_{number}", f"model.{side}.layers.{number}"
            own, other = f"{target}.self_attn", f"{target}.encoder_attn"
            norm(f"{source}/self_attention/layer_norm", f"{own}_layer_norm")
            linear(f"{source}/self_attention/linear_0", *(f"{own}.{each}_proj" for each in "qkv"))
            linear(f"{source}/self_attention/linear_1", f"{own}.out_proj")
            if side == "decoder":
                norm(f"{source}/attention/layer_norm", f"{other}_layer_norm")
                linear(f"{source}/attention/linear_0", f"{other}.q_proj")
                linear(f"{source}/attention/linear_1", f"{other}.k_proj", f"{other}.v_proj")
                linear(f"{source}/attention/linear_2", f"{other}.out_proj")
            norm(f"{source}/ffn/layer_norm", f"{target}.final_layer_norm")
            linear(f"{source}/ffn/linear_0", f"{target}.fc1")
            linear(f"{source}/ffn/linear_1", f"{target}.fc2")
            number += 1
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        made[f"model.{side}.embed_positions.weight"] = variables[
            f"{side}/position_encodings/encodings"
        ].astype(np.float32)
    for each in ("conv1", "conv2"):
        linear(f"encoder/{each}", f"model.encoder.{each}")
    made["model.decoder.embed_tokens.weight"] = weight("decoder/embeddings")
    return made


def model_config(weights: Mapping[str, Floats], ids: Mapping[str, int]) -> Mapping[str, Any]:
    """Return the members of config.json; ``ids``: of special tokens."""
    tokens, size = weights["model.decoder.embed_tokens.weight"].shape
    layers = {
        side: sum(name.endswith("fc1.weight") and f".{side}." in name for name in weights)
        for side in ("encoder", "decoder")
    }
    heads = size // _HEAD_SIZE
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "torch_dtype": "float32",
        "vocab_size": tokens,
        "d_model": size,
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * size,
        "decoder_ffn_dim": 4 * size,
        "num_mel_bins": weights["model.encoder.conv1.weight"].shape[1],
        "max_source_positions": len(weights["model.encoder.embed_positions.weight"]),
        "max_target_positions": len(weights["model.decoder.embed_positions.weight"]),
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), ids[END]),
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }


def generation_config(
    settings: Mapping[str, Any], ids: Mapping[str, int], tokens: int
) -> Mapping[str, Any]:
    """Return the members of generation_config.json.

    Args:
        settings: CTranslate2's config.json.
        tokens: the size of the vocabulary, which tells models of many languages from English ones.
    """
    config: dict[str, Any] = {
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), ids[END]),
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "max_length": 448,
        "max_initial_timestamp_index": 50,
        "suppress_tokens": settings["suppress_ids"],
        "begin_suppress_tokens": settings["suppress_ids_begin"],
        "return_timestamps": False,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "prev_sot_token_id": ids["<|startofprev|>"],
        "alignment_heads": settings["alignment_heads"],
        "is_multilingual": tokens > _ENGLISH_TOKENS,
    }
    if config["is_multilingual"]:
        languages = {number: text for text, number in ids.items()}
        config["lang_to_id"] = {languages[each]: each for each in settings["lang_ids"]}
        tasks = ("transcribe", "translate")
        config["task_to_id"] = {name: ids[f"<|{name}|>"] for name in tasks}
        config["task"] = "transcribe"
    return config


def preprocessing(weights: Mapping[str, Floats]) -> Mapping[str, Any]:
    """Return the members of preprocessor_config.json."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": weights["model.encoder.conv1.weight"].shape[1],
        "sampling_rate": 16000,
        "hop_length": 160,
        "chunk_length": 30,
        "n_fft": 400,
        "n_samples": 480000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }


def _vocabulary(tokenizer: Mapping[str, Any], size: int) -> Vocabulary:
    """Return the tokens of a tokenizer.json, and those for times, which CTranslate2 leaves out."""
    texts = [""] * size
    types = np.full(size, TokenType.NORMAL, np.int8)
    for text, number in tokenizer["model"]["vocab"].items():
        texts[number] = text
    for each in tokenizer["added_tokens"]:
        texts[each["id"]] = each["content"]
        types[each["id"]] = TokenType.CONTROL
    first = next((number for number, text in enumerate(texts) if not text), size)
    for number in range(first, size):
        texts[number] = f"<|{(number - first) * _SECONDS_OF_STEP:.2f}|>"
        types[number] = TokenType.CONTROL
    end = texts.index(END)
    merges = tokenizer["model"]["merges"]
    return Vocabulary(
        kind="gpt2",
        pre_tokenizer="gpt-2",
        tokens=[each.encode() for each in texts],
        types=types,
        scores=np.zeros(0, np.float32),
        merges=[(each if isinstance(each, str) else " ".join(each)).encode() for each in merges],
        bos=end,
        eos=end,
        pad=end,
        unknown=None,
        separator=None,
        mask=None,
        ends=[end],
        infill={},
        adds_bos=False,
        adds_eos=False,
        adds_separator=False,
        adds_space=False,
        merges_spaces=False,
        normalization=b"",
        lowercases=False,
        strips_accents=False,
        templates={},
        strips_after=False,
        mask_strips=False,
    )


def _parameter(name: str, shape: list[int], kind: ov.Type) -> ov.Node:
    parameter = op.parameter(shape, kind, name)
    parameter.output(0).set_names({name})
    return parameter


def _result(output: Any, name: str) -> ov.Node:
    output.output(0).set_names({name})
    return op.result(output)


class _Builder:
    """Builds both halves of a model; names of weights are transformers'."""

    def __init__(self, weights: Mapping[str, Floats], heads: int) -> None:
        self._weights = weights
        self._heads = heads

    def encoder(self, layers: int) -> ov.Model:
        """Return the model from a spectrogram to vectors: ``input_features`` (N, mels, frames)."""
        w = self._weights
        mels = w["model.encoder.conv1.weight"].shape[1]
        positions = w["model.encoder.embed_positions.weight"]
        features = _parameter("input_features", [-1, mels, 2 * len(positions)], ov.Type.f32)
        x = features
        for name, stride in (("conv1", 1), ("conv2", 2)):
            kernel = op.constant(w[f"model.encoder.{name}.weight"])
            bias = op.constant(w[f"model.encoder.{name}.bias"].reshape(1, -1, 1))
            x = op.gelu(op.add(op.convolution(x, kernel, [stride], [1], [1], [1]), bias), "erf")
        x = op.add(op.transpose(x, whole([0, 2, 1])), op.constant(positions[None]))
        for number in range(layers):
            layer = f"model.encoder.layers.{number}"
            normed = self._norm(x, f"{layer}.self_attn_layer_norm")
            keys, values = self._keys_and_values(normed, f"{layer}.self_attn")
            x = op.add(x, self._attention(normed, keys, values, f"{layer}.self_attn"))
            x = self._feed_forward(x, layer)
        x = self._norm(x, "model.encoder.layer_norm")
        return ov.Model([_result(x, "last_hidden_state")], [features], "encoder")

    def decoder(self, layers: int) -> ov.Model:
        """Return the model from tokens to logits, with the states of one sound."""
        w = self._weights
        table = w["model.decoder.embed_tokens.weight"]
        size = table.shape[1]
        ids = _parameter("input_ids", [-1, -1], ov.Type.i64)
        sound = _parameter("encoder_hidden_states", [-1, -1, size], ov.Type.f32)
        beams = _parameter("beam_idx", [-1], ov.Type.i32)
        batch = op.gather(op.shape_of(ids), whole([0]), whole(0))
        empty_shape = op.concat([batch, whole([self._heads, 0, _HEAD_SIZE])], 0)
        empty = op.broadcast(op.constant(np.zeros((), np.float32)), empty_shape)
        assigns: list[Any] = []
        states: list[tuple[Any, Any, Any, Any]] = []
        for number in range(layers):
            past = [
                self._state(f"past_key_values.{number}.decoder.{what}", empty)
                for what in ("key", "value")
            ]
            own = [op.gather(read, beams, whole(0)) for read, _ in past]
            states.append((*own, *(variable for _, variable in past)))
        done = op.gather(op.shape_of(states[0][0]), whole(2), whole(0))
        length = op.gather(op.shape_of(ids), whole(1), whole(0))
        end = op.add(done, length)
        places = op.range(done, end, whole(1), "i64")
        all_places = op.range(whole(0), end, whole(1), "i64")
        seen = op.less_equal(
            op.unsqueeze(all_places, whole([0, 1, 2])), op.unsqueeze(places, whole([0, 1, 3]))
        )
        embeddings = op.constant(table)
        x = op.gather(embeddings, ids, whole(0))
        rows = op.constant(w["model.decoder.embed_positions.weight"])
        x = op.add(x, op.unsqueeze(op.gather(rows, places, whole(0)), whole(0)))
        for number, (past_keys, past_values, key_state, value_state) in enumerate(states):
            layer = f"model.decoder.layers.{number}"
            name = f"{layer}.self_attn"
            normed = self._norm(x, f"{name}_layer_norm")
            keys, values = self._keys_and_values(normed, name)
            keys, values = op.concat([past_keys, keys], 2), op.concat([past_values, values], 2)
            assigns += [op.assign(keys, key_state), op.assign(values, value_state)]
            x = op.add(x, self._attention(normed, keys, values, name, seen))
            name = f"{layer}.encoder_attn"
            normed = self._norm(x, f"{name}_layer_norm")
            read = []
            for made, what in zip(
                self._keys_and_values(sound, name), ("key", "value"), strict=True
            ):
                kept, variable = self._state(f"past_key_values.{number}.encoder.{what}", made)
                assigns.append(op.assign(kept, variable))
                read.append(kept)
            x = op.add(x, self._attention(normed, read[0], read[1], name))
            x = self._feed_forward(x, layer)
        x = self._norm(x, "model.decoder.layer_norm")
        logits = _result(op.matmul(x, embeddings, False, True), "logits")
        return ov.Model([logits], assigns, [ids, sound, beams], "decoder")

    def _state(self, name: str, first: Any) -> tuple[Any, Variable]:
        """Return a state that begins with ``first``, and its variable."""
        info = VariableInfo()
        info.data_shape = ov.PartialShape([-1, self._heads, -1, _HEAD_SIZE])
        info.data_type = ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        return op.read_value(first, variable), variable

    def _keys_and_values(self, x: Any, name: str) -> tuple[Any, Any]:
        return self._split(x, f"{name}.k_proj"), self._split(x, f"{name}.v_proj")

    def _split(self, x: Any, name: str) -> Any:
        """Return a product, (N, heads, length, head size)."""
        made = op.reshape(self._linear(x, name), whole([0, 0, self._heads, _HEAD_SIZE]), True)
        return op.transpose(made, whole([0, 2, 1, 3]))

    def _attention(self, x: Any, keys: Any, values: Any, name: str, mask: Any = None) -> Any:
        query = self._split(x, f"{name}.q_proj")
        if mask is None:
            # Times of words are read from the sum with the mask, so that there must be one.
            mask = op.constant(np.zeros((), np.float32))
        seen = op.scaled_dot_product_attention(query, keys, values, mask)
        # The library finds the layers whose attention has the times of words by this name.
        seen.set_friendly_name(
            f"__module.{name}/aten::scaled_dot_product_attention/ScaledDotProductAttention"
        )
        seen = op.transpose(seen, whole([0, 2, 1, 3]))
        return self._linear(op.reshape(seen, whole([0, 0, -1]), True), f"{name}.out_proj")

    def _feed_forward(self, x: Any, layer: str) -> Any:
        normed = self._norm(x, f"{layer}.final_layer_norm")
        inner = op.gelu(self._linear(normed, f"{layer}.fc1"), "erf")
        return op.add(x, self._linear(inner, f"{layer}.fc2"))

    def _linear(self, x: Any, name: str) -> Any:
        made = op.matmul(x, op.constant(self._weights[f"{name}.weight"]), False, True)
        bias = self._weights.get(f"{name}.bias")
        return made if bias is None else op.add(made, op.constant(bias))

    def _norm(self, x: Any, name: str) -> Any:
        made = op.mvn(x, whole([-1]), True, _EPSILON, "inside_sqrt")
        made = op.multiply(made, op.constant(self._weights[f"{name}.weight"]))
        return op.add(made, op.constant(self._weights[f"{name}.bias"]))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
