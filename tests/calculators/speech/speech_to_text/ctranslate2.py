"""A tiny Whisper of random weights in CTranslate2's form, and its sums in NumPy."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SIZE: Final = 128
HEADS: Final = 2
MELS: Final = 80
FRAMES: Final = 8  # of a sound, after the encoder
_LAYERS: Final = 2
_ADDED: Final = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|startofprev|>",
    "<|notimestamps|>",
)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzĠ"
_MERGES: Final = ("h e", "l o")
#: Tokens of times, which tokenizer.json of CTranslate2 leaves out.
TIMES: Final = 5
TOKENS: Final = len(_LETTERS) + len(_MERGES) + len(_ADDED) + TIMES


def make_whisper(directory: Path) -> dict[str, Floats]:
    """Write the model's files; return its variables, which the file has in 16 bits."""
    directory.mkdir(parents=True, exist_ok=True)
    variables = _variables()
    with (directory / "model.bin").open("wb") as file:
        file.write(struct.pack("<I", 6) + _text("WhisperSpec") + struct.pack("<I", 3))
        file.write(struct.pack("<I", len(variables)))
        for name, value in variables.items():
            data = value.astype("<f2").tobytes()
            file.write(_text(name) + struct.pack("<B", value.ndim))
            file.write(struct.pack(f"<{value.ndim}I", *value.shape))
            file.write(struct.pack("<BI", 4, len(data)) + data)
        file.write(struct.pack("<I", 0))
    words = [*_LETTERS, "he", "lo"]
    tokenizer = {
        "added_tokens": [
            {"id": len(words) + place, "content": text, "special": True}
            for place, text in enumerate(_ADDED)
        ],
        "model": {
            "vocab": {word: place for place, word in enumerate(words)},
            "merges": list(_MERGES),
        },
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {
        "suppress_ids": [1],
        "suppress_ids_begin": [2],
        "alignment_heads": [[1, 0]],
        "lang_ids": [],
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return variables


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def _variables() -> dict[str, Floats]:
    random = np.random.default_rng(7)

    def made(*shape: int, scale: float = 0.1) -> Floats:
        return (random.normal(size=shape) * scale).astype(np.float16).astype(np.float32)

    found: dict[str, Floats] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        found[f"{name}/weight"] = made(rows, columns)
        found[f"{name}/bias"] = made(rows)

    def norm(name: str) -> None:
        found[f"{name}/gamma"] = (1 + made(SIZE)).astype(np.float16).astype(np.float32)
        found[f"{name}/beta"] = made(SIZE)

    for name, channels in (("conv1", MELS), ("conv2", SIZE)):
        found[f"encoder/{name}/weight"] = made(SIZE, channels, 3)
        found[f"encoder/{name}/bias"] = made(SIZE)
    for side, positions in (("encoder", FRAMES), ("decoder", 16)):
        for number in range(_LAYERS):
            layer = f"{side}/layer_{number}"
            norm(f"{layer}/self_attention/layer_norm")
            linear(f"{layer}/self_attention/linear_0", 3 * SIZE, SIZE)
            found[f"{layer}/self_attention/linear_0/bias"][SIZE : 2 * SIZE] = 0  # keys
            linear(f"{layer}/self_attention/linear_1", SIZE, SIZE)
            if side == "decoder":
                norm(f"{layer}/attention/layer_norm")
                linear(f"{layer}/attention/linear_0", SIZE, SIZE)
                linear(f"{layer}/attention/linear_1", 2 * SIZE, SIZE)
                found[f"{layer}/attention/linear_1/bias"][:SIZE] = 0
                linear(f"{layer}/attention/linear_2", SIZE, SIZE)
            norm(f"{layer}/ffn/layer_norm")
            linear(f"{layer}/ffn/linear_0", 4 * SIZE, SIZE)
            linear(f"{layer}/ffn/linear_1", SIZE, 4 * SIZE)
        norm(f"{side}/layer_norm")
        found[f"{side}/position_encodings/encodings"] = made(positions, SIZE)
    found["decoder/embeddings/weight"] = made(TOKENS, SIZE)
    return found


class Whisper:
    """The model in NumPy: no states, the whole text at once."""

    def __init__(self, variables: dict[str, Floats]) -> None:
        self._variables = variables

    def encoded(self, features: Floats) -> Floats:
        """Return the vectors of a spectrogram (mels, 2 * FRAMES)."""
        v = self._variables
        x = features
        for name, stride in (("conv1", 1), ("conv2", 2)):
            weight = v[f"encoder/{name}/weight"]
            padded = np.pad(x, ((0, 0), (1, 1)))
            places = range(0, x.shape[1], stride)
            columns = [np.einsum("oct,ct->o", weight, padded[:, at : at + 3]) for at in places]
            x = _gelu(np.stack(columns, 1) + v[f"encoder/{name}/bias"][:, None])
        x = x.T + v["encoder/position_encodings/encodings"]
        for number in range(_LAYERS):
            x = self._layer(x, f"encoder/layer_{number}", None)
        return self._norm(x, "encoder/layer_norm")

    def logits(self, ids: list[int], sound: Floats) -> Floats:
        """Return the logits after each token."""
        v = self._variables
        table = v["decoder/embeddings/weight"]
        x = table[ids] + v["decoder/position_encodings/encodings"][: len(ids)]
        for number in range(_LAYERS):
            x = self._layer(x, f"decoder/layer_{number}", sound)
        made: Floats = self._norm(x, "decoder/layer_norm") @ table.T
        return made

    def _layer(self, x: Floats, layer: str, sound: Floats | None) -> Floats:
        own = f"{layer}/self_attention"
        joined = self._linear(self._norm(x, f"{own}/layer_norm"), f"{own}/linear_0")
        query, keys, values = np.split(joined, 3, 1)
        seen = _attention(query, keys, values, is_causal=sound is not None)
        x = x + self._linear(seen, f"{own}/linear_1")
        if sound is not None:
            other = f"{layer}/attention"
            query = self._linear(self._norm(x, f"{other}/layer_norm"), f"{other}/linear_0")
            keys, values = np.split(self._linear(sound, f"{other}/linear_1"), 2, 1)
            x = x + self._linear(_attention(query, keys, values), f"{other}/linear_2")
        inner = _gelu(
            self._linear(self._norm(x, f"{layer}/ffn/layer_norm"), f"{layer}/ffn/linear_0")
        )
        return x + self._linear(inner, f"{layer}/ffn/linear_1")

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._variables[f"{name}/weight"].T + self._variables[f"{name}/bias"]

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        made: Floats = scaled * self._variables[f"{name}/gamma"] + self._variables[f"{name}/beta"]
        return made


def _attention(query: Any, keys: Any, values: Any, *, is_causal: bool = False) -> Any:
    made = []
    for q, k, v in zip(*(np.split(each, HEADS, 1) for each in (query, keys, values)), strict=True):
        scores = q @ k.T / math.sqrt(SIZE // HEADS)
        if is_causal:
            scores = np.where(np.tril(np.ones_like(scores)), scores, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        made.append(weights / weights.sum(1, keepdims=True) @ v)
    return np.concatenate(made, 1)


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
