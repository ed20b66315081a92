"""An encoder of the shape of all-MiniLM-L6-v2, with random weights or those of a checkpoint.

With random ones, 22.7 million, what it computes means nothing, but takes as long as the real model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

LAYERS: Final = 6
HEADS: Final = 12
SIZE: Final = 384
INNER: Final = 1536
POSITIONS: Final = 512
VOCABULARY: Final = 30522
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

#: Returns the weights of a name in the checkpoint, which have the shape that follows.
Weights = Callable[..., NDArray[np.float32]]

GRAPH: Final = """\
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
  name: "EmbeddingsExecutor"
  calculator: "EmbeddingsCalculatorOV"
  input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
      models_path: "./"
      pooling: MEAN
    }
  }
}
"""


def random_weights() -> Weights:
    """Return a source of weights that are the same each time."""
    random = np.random.default_rng(0)

    def made(name: str, *shape: int) -> NDArray[np.float32]:
        if name.endswith("LayerNorm.weight"):
            return np.ones(shape, np.float32)
        return random.normal(0, 0.05, shape).astype(np.float32)

    return made


def write_model(directory: Path, weights: Weights, *, int8: bool) -> None:
    """Write the model; ``int8``: matrices of 8 bits, with a scale for each row.

    Tables of embeddings then have 16 bits: with 8 they alone cost more of the cosine than all
    matrices together.
    """
    model = _Encoder(weights, int8).model()
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)


def make_encoder(directory: Path, *, int8: bool) -> Path:
    """Write a model with random weights, its tokenizer, config and graph; see `write_model`."""
    directory.mkdir(parents=True, exist_ok=True)
    write_model(directory, random_weights(), int8=int8)
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "max_position_embeddings": POSITIONS,
        "vocab_size": VOCABULARY,
        "pad_token_id": 0,
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "graph.pbtxt").write_text(GRAPH, encoding="utf-8")
    _write_tokenizer(directory / "tokenizer.json")
    return directory


def text_of(tokens: int, seed: int) -> str:
    """Return a text that has this number of tokens, with the two special ones."""
    numbers = np.random.default_rng(seed).integers(len(_SPECIAL), VOCABULARY, tokens - 2)
    return " ".join(f"w{number}" for number in numbers)


def _write_tokenizer(file: Path) -> None:
    words = [*_SPECIAL, *(f"w{number}" for number in range(len(_SPECIAL), VOCABULARY))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer: Any = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(file))


class _Encoder:
    """BERT as transformers exports it, in OpenVINO's operations."""

    def __init__(self, weights: Weights, int8: bool) -> None:
        self._numbers = weights
        self._int8 = int8

    def model(self) -> ov.Model:
        inputs = {}
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            inputs[name] = op.parameter([-1, -1], np.int64, name)
            inputs[name].output(0).set_names({name})
        ids, mask, types = inputs.values()
        hidden = op.add(
            self._looked_up("word", ids, VOCABULARY), self._looked_up("token_type", types, 2)
        )
        length = op.gather(op.shape_of(ids), _whole(1), _whole(0))
        positions = op.range(_whole(0), length, _whole(1), output_type="i64")
        hidden = op.add(hidden, self._looked_up("position", positions, POSITIONS))
        hidden = self._norm("embeddings", hidden)
        lowest = op.constant(np.float32(-1e9))
        missing = op.subtract(op.constant(np.float32(1)), op.convert(mask, "f32"))
        bias = op.unsqueeze(op.multiply(missing, lowest), _whole([1, 2]))
        for number in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{number}", hidden, bias)
        result = op.result(hidden)
        result.output(0).set_names({"last_hidden_state"})
        return ov.Model([result], list(inputs.values()), "encoder")

    def _layer(self, name: str, hidden: Any, bias: Any) -> Any:
        queries, keys, values = (
            self._heads(self._linear(f"{name}.attention.self.{part}", hidden, SIZE, SIZE))
            for part in ("query", "key", "value")
        )
        scaled = op.multiply(queries, op.constant(np.float32((SIZE / HEADS) ** -0.5)))
        scores = op.add(op.matmul(scaled, keys, False, True), bias)
        mixed = op.transpose(
            op.matmul(op.softmax(scores, axis=-1), values, False, False), _whole([0, 2, 1, 3])
        )
        mixed = op.reshape(mixed, _whole([0, 0, SIZE]), special_zero=True)
        mixed = self._linear(f"{name}.attention.output.dense", mixed, SIZE, SIZE)
        hidden = self._norm(f"{name}.attention.output", op.add(hidden, mixed))
        inner = op.gelu(self._linear(f"{name}.intermediate.dense", hidden, SIZE, INNER), "ERF")
        outer = self._linear(f"{name}.output.dense", inner, INNER, SIZE)
        return self._norm(f"{name}.output", op.add(hidden, outer))

    def _heads(self, hidden: Any) -> Any:
        split = op.reshape(hidden, _whole([0, 0, HEADS, SIZE // HEADS]), special_zero=True)
        return op.transpose(split, _whole([0, 2, 1, 3]))

    def _linear(self, name: str, hidden: Any, size_in: int, size_out: int) -> Any:
        weights = self._weights(f"{name}.weight", size_out, size_in)
        bias = op.constant(self._numbers(f"{name}.bias", size_out))
        return op.add(op.matmul(hidden, weights, False, True), bias)

    def _looked_up(self, kind: str, ids: Any, count: int) -> Any:
        numbers = self._numbers(f"embeddings.{kind}_embeddings.weight", count, SIZE)
        if not self._int8:
            return op.gather(op.constant(numbers), ids, _whole(0))
        rows = op.gather(op.constant(numbers.astype(np.float16)), ids, _whole(0))
        return op.convert(rows, "f32")

    def _norm(self, name: str, hidden: Any) -> Any:
        normal = op.mvn(hidden, _whole([-1]), True, 1e-12, "INSIDE_SQRT")
        scale = op.constant(self._numbers(f"{name}.LayerNorm.weight", SIZE))
        bias = op.constant(self._numbers(f"{name}.LayerNorm.bias", SIZE))
        return op.add(op.multiply(normal, scale), bias)

    def _weights(self, name: str, rows: int, columns: int) -> Any:
        numbers = self._numbers(name, rows, columns)
        if not self._int8:
            return op.constant(numbers)
        scale = np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127)
        small = op.constant(np.rint(numbers / scale).astype(np.int8))
        return op.multiply(op.convert(small, "f32"), op.constant(scale))


def _whole(value: Any) -> Any:
    return op.constant(np.array(value, np.int64))
