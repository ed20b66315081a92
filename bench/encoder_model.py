"""An encoder of the shape of all-MiniLM-L6-v2 with random weights, and its tokenizer.

22.7 million weights: what it computes means nothing, but takes as long as the real model.
"""

from __future__ import annotations

import json
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


def make_encoder(directory: Path, *, int8: bool) -> Path:
    """Write model, tokenizer, config and graph; ``int8``: weights of 8 bits with a scale each."""
    directory.mkdir(parents=True, exist_ok=True)
    ov.save_model(_Encoder(int8).model(), directory / "openvino_model.xml", compress_to_fp16=False)
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

    def __init__(self, int8: bool) -> None:
        self._int8 = int8
        self._random = np.random.default_rng(0)

    def model(self) -> ov.Model:
        inputs = {}
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            inputs[name] = op.parameter([-1, -1], np.int64, name)
            inputs[name].output(0).set_names({name})
        ids, mask, types = inputs.values()
        hidden = op.add(self._looked_up(ids, VOCABULARY), self._looked_up(types, 2))
        length = op.gather(op.shape_of(ids), _whole(1), _whole(0))
        positions = op.range(_whole(0), length, _whole(1), output_type="i64")
        hidden = self._norm(op.add(hidden, self._looked_up(positions, POSITIONS)))
        lowest = op.constant(np.float32(-1e9))
        missing = op.subtract(op.constant(np.float32(1)), op.convert(mask, "f32"))
        bias = op.unsqueeze(op.multiply(missing, lowest), _whole([1, 2]))
        for _ in range(LAYERS):
            hidden = self._layer(hidden, bias)
        result = op.result(hidden)
        result.output(0).set_names({"last_hidden_state"})
        return ov.Model([result], list(inputs.values()), "encoder")

    def _layer(self, hidden: Any, bias: Any) -> Any:
        queries, keys, values = (self._heads(self._linear(hidden, SIZE, SIZE)) for _ in range(3))
        scaled = op.multiply(queries, op.constant(np.float32((SIZE / HEADS) ** -0.5)))
        scores = op.add(op.matmul(scaled, keys, False, True), bias)
        mixed = op.transpose(
            op.matmul(op.softmax(scores, axis=-1), values, False, False), _whole([0, 2, 1, 3])
        )
        mixed = op.reshape(mixed, _whole([0, 0, SIZE]), special_zero=True)
        hidden = self._norm(op.add(hidden, self._linear(mixed, SIZE, SIZE)))
        inner = op.gelu(self._linear(hidden, SIZE, INNER), "ERF")
        return self._norm(op.add(hidden, self._linear(inner, INNER, SIZE)))

    def _heads(self, hidden: Any) -> Any:
        split = op.reshape(hidden, _whole([0, 0, HEADS, SIZE // HEADS]), special_zero=True)
        return op.transpose(split, _whole([0, 2, 1, 3]))

    def _linear(self, hidden: Any, size_in: int, size_out: int) -> Any:
        product = op.matmul(hidden, self._weights(size_out, size_in), False, True)
        return op.add(product, op.constant(self._numbers(1, 1, size_out)))

    def _looked_up(self, ids: Any, count: int) -> Any:
        return op.gather(self._weights(count, SIZE), ids, _whole(0))

    def _norm(self, hidden: Any) -> Any:
        normal = op.mvn(hidden, _whole([-1]), True, 1e-12, "INSIDE_SQRT")
        scale = op.constant(np.ones((1, 1, SIZE), np.float32))
        return op.add(op.multiply(normal, scale), op.constant(self._numbers(1, 1, SIZE)))

    def _weights(self, rows: int, columns: int) -> Any:
        numbers = self._numbers(rows, columns)
        if not self._int8:
            return op.constant(numbers)
        scale = np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127)
        small = op.constant(np.rint(numbers / scale).astype(np.int8))
        return op.multiply(op.convert(small, "f32"), op.constant(scale))

    def _numbers(self, *shape: int) -> NDArray[np.float32]:
        return self._random.normal(0, 0.05, shape).astype(np.float32)


def _whole(value: Any) -> Any:
    return op.constant(np.array(value, np.int64))
