"""Maker of a GGUF model with random weights, for measuring servers: the answers need no meaning.

    python -m bench.random_model DIRECTORY

writes ``model.gguf`` and ``graph.pbtxt``. The architecture is Qwen3's, with 98 M parameters in
float16 and a byte-level vocabulary of its own.

`write_encoder` and its neighbours make an encoder of the shape of all-MiniLM-L6-v2, with random
weights or those of a checkpoint. With random ones, 22.7 million, what it computes means nothing,
but takes as long as the real model.

Continuous batching of openvino-genai gives no logits of a prompt: `PagedModel` runs a model in the
same paged form, with a cache of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from openvino._offline_transformations import paged_attention_transformation
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from bench.gguf_file import Value, write_gguf

#: Numbers as they are, nothing rounded.
EXACT: Final = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}
_CACHES: Final = ("key_cache", "value_cache")


class PagedModel:
    """A compiled model, for one sequence.

    Attributes:
        unpaged: attention that did not become paged.
        windows: of the layers' attention.
    """

    def __init__(
        self, model: ov.Model, properties: dict[str, Any] | None = None, length: int = 256
    ) -> None:
        paged_attention_transformation(model)
        kinds = [node.get_type_name() for node in model.get_ops()]
        self.unpaged = kinds.count("ScaledDotProductAttention")
        self.windows = [
            _number(node.input_value(10))
            for node in model.get_ops()
            if node.get_type_name() == "PagedAttentionExtension"
        ]
        compiled = ov.Core().compile_model(model, "CPU", properties or EXACT)
        self._request = compiled.create_infer_request()
        self._compiled = compiled
        self._block = 32
        self._past = 0
        self._caches = []
        for port in compiled.inputs:
            if port.get_any_name().startswith(_CACHES):
                shape = port.get_partial_shape()
                lengths = [each.get_length() for each in list(shape)[1:]]
                blocks = -(-length // self._block)
                cache = ov.Tensor(port.get_element_type(), ov.Shape([blocks, *lengths]))
                cache.data[:] = 0
                self._caches.append(cache)
                self._request.set_tensor(port, cache)
        self._names = {port.get_any_name() for port in compiled.inputs}

    def kernels(self) -> Counter[tuple[str, str]]:
        """Return how often each operation runs with each kernel."""
        found: Counter[tuple[str, str]] = Counter()
        for node in self._compiled.get_runtime_model().get_ops():
            facts = node.get_rt_info()
            found[facts["layerType"].astype(str), facts["primitiveType"].astype(str)] += 1
        return found

    def forget(self) -> None:
        """Begin another sequence."""
        self._past = 0

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits of each of these tokens, which follow the ones before."""
        count, end = len(ids), self._past + len(ids)
        blocks = -(-end // self._block)
        values = {
            "input_ids": np.array(ids, np.int64),
            "position_ids": np.arange(self._past, end, dtype=np.int64),
            "past_lens": np.array([self._past], np.int32),
            "subsequence_begins": np.array([0, count], np.int32),
            "block_indices": np.arange(blocks, dtype=np.int32),
            "block_indices_begins": np.array([0, blocks], np.int32),
            "max_context_len": np.array(end, np.int32),
        }
        tensors = {name: ov.Tensor(value) for name, value in values.items() if name in self._names}
        for name, tensor in tensors.items():
            self._request.set_tensor(name, tensor)
        self._request.infer()
        self._past = end
        return np.array(self._request.get_output_tensor(0).data).reshape(count, -1)


def _number(output: Any) -> int:
    """Return the number that some nodes over constants make."""
    node = output.get_node()
    kind = node.get_type_name()
    if kind == "Constant":
        return int(np.array(node.get_data()).reshape(-1)[0])
    inputs = [_number(each) for each in node.input_values()[: 1 if kind != "Multiply" else 2]]
    return inputs[0] * inputs[1] if kind == "Multiply" else inputs[0]


class StatefulModel:
    """A compiled model whose caches are states, for one sequence.

    Models with states of another kind than keys and values have tables of them in the paged form,
    which openvino-genai fills.
    """

    def __init__(self, model: ov.Model, properties: dict[str, Any] | None = None) -> None:
        compiled = ov.Core().compile_model(model, "CPU", properties or EXACT)
        self._request = compiled.create_infer_request()
        self._past = 0

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits of each of these tokens, which follow the ones before."""
        end = self._past + len(ids)
        found = self._request.infer(
            {
                "input_ids": np.array([ids], np.int64),
                "attention_mask": np.ones((1, end), np.int64),
                "position_ids": np.arange(self._past, end, dtype=np.int64)[np.newaxis],
                "beam_idx": np.zeros(1, np.int32),
            }
        )
        self._past = end
        return np.array(found[0][0])


LAYERS: Final = 6
HEADS: Final = 12
SIZE: Final = 384
INNER: Final = 1536
#: Weights of a row that share a scale, in the form of 8 bits.
GROUP: Final = 64
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
    """Write the model; ``int8``: matrices of 8 bits, with a scale for each `GROUP` of a row.

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
        groups = numbers.reshape(rows, columns // GROUP, GROUP)
        scale = np.abs(groups).max(axis=2, keepdims=True) / np.float32(127)
        small = op.constant(np.rint(groups / scale).astype(np.int8))
        wide = op.multiply(op.convert(small, "f32"), op.constant(scale))
        return op.reshape(wide, _whole([rows, columns]), special_zero=False)


def _whole(value: Any) -> Any:
    return op.constant(np.array(value, np.int64))


CHAT_TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DEMO_GRAPH: Final = Path(__file__).parents[1] / "examples/models/demo/graph.pbtxt"
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_NORMAL, _CONTROL = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Dimensions of a model; ``vocabulary`` in tokens, at least 259."""

    hidden: int = 768
    feed_forward: int = 2304
    layers: int = 12
    heads: int = 12
    key_value_heads: int = 6
    head: int = 64
    vocabulary: int = 16_384
    context: int = 4096

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Return the shapes of all weights by ggml's names."""
        yield "token_embd.weight", (self.vocabulary, self.hidden)
        for layer in range(self.layers):
            for name, shape in (
                ("attn_norm", (self.hidden,)),
                ("attn_q", (self.heads * self.head, self.hidden)),
                ("attn_k", (self.key_value_heads * self.head, self.hidden)),
                ("attn_v", (self.key_value_heads * self.head, self.hidden)),
                ("attn_q_norm", (self.head,)),
                ("attn_k_norm", (self.head,)),
                ("attn_output", (self.hidden, self.heads * self.head)),
                ("ffn_norm", (self.hidden,)),
                ("ffn_gate", (self.feed_forward, self.hidden)),
                ("ffn_up", (self.feed_forward, self.hidden)),
                ("ffn_down", (self.hidden, self.feed_forward)),
            ):
                yield f"blk.{layer}.{name}.weight", shape
        yield "output_norm.weight", (self.hidden,)

    def parameters(self) -> int:
        return sum(int(np.prod(shape)) for _, shape in self.shapes())


LARGE: Final = ModelSize()
TINY: Final = ModelSize(
    hidden=64, feed_forward=128, layers=2, heads=2, key_value_heads=1, head=32, vocabulary=1024
)


def make_model(directory: Path, size: ModelSize = LARGE) -> Path:
    """Write the model and its graph; return the path of the GGUF file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "model.gguf"
    write_gguf(path, metadata(size), dict(weights(size)))
    write_graph(directory, path)
    return path


def write_graph(directory: Path, gguf: Path) -> None:
    """Write the graph that serves a GGUF file with the options of the example's graph."""
    directory.mkdir(parents=True, exist_ok=True)
    # Beside its graph the file goes wherever the directory goes.
    models_path = f"./{gguf.name}" if gguf.parent == directory else str(gguf.absolute())
    graph = DEMO_GRAPH.read_text(encoding="utf-8").replace('"./"', f'"{models_path}"')
    (directory / "graph.pbtxt").write_text(graph, encoding="utf-8")


def weights(size: ModelSize) -> Iterator[tuple[str, NDArray[Any]]]:
    """Return random weights, the same in every run."""
    random = np.random.default_rng(0)
    for name, shape in size.shapes():
        if len(shape) == 1:
            yield name, np.ones(shape, dtype=np.float32)
        else:
            values = random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
            yield name, values.astype(np.float16)


def metadata(size: ModelSize) -> dict[str, Value]:
    tokens, merges = vocabulary(size.vocabulary)
    kinds = [_CONTROL if token in SPECIAL else _NORMAL for token in tokens]
    return {
        "general.architecture": "qwen3",
        "general.file_type": 1,  # mostly float16
        "qwen3.block_count": size.layers,
        "qwen3.context_length": size.context,
        "qwen3.embedding_length": size.hidden,
        "qwen3.feed_forward_length": size.feed_forward,
        "qwen3.attention.head_count": size.heads,
        "qwen3.attention.head_count_kv": size.key_value_heads,
        "qwen3.attention.key_length": size.head,
        "qwen3.attention.value_length": size.head,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen3.rope.freq_base": 10_000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": SPECIAL.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": SPECIAL.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": SPECIAL.index("<|endoftext|>"),
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def vocabulary(size: int) -> tuple[list[str], list[str]]:
    """Tokens and merges: all bytes, pairs of letters, and pairs of pairs until it is full."""
    tokens = [*SPECIAL, *_byte_letters()]
    merges: list[str] = []
    for left, right in itertools.islice(_pairs(), size - len(tokens)):
        tokens.append(left + right)
        merges.append(f"{left} {right}")
    if len(tokens) != size:
        raise ValueError(f"a vocabulary has {len(tokens)} tokens at least or at most, not {size}")
    return tokens, merges


def _pairs() -> Iterator[tuple[str, str]]:
    letters = string.ascii_lowercase
    space = _byte_letters()[ord(" ")]
    doubles = [left + right for left in letters for right in letters]
    yield from ((left, right) for left in letters for right in letters)
    yield from ((space, each) for each in (*letters, *doubles))
    yield from ((left, right) for left in doubles for right in doubles)


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level BPE (GPT-2) writes for each byte."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return [chr(byte if byte in shown else next(others)) for byte in range(0x100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    path = make_model(directory)
    megabytes = path.stat().st_size / 1e6
    print(f"{path}: {LARGE.parameters() / 1e6:.0f} M parameters, {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
