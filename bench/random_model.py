"""Maker of a GGUF model with random weights, for measuring servers: the answers need no meaning.

    python -m bench.random_model DIRECTORY

writes ``model.gguf`` and ``graph.pbtxt``. The architecture is Qwen3's, with 98 M parameters in
float16 and a byte-level vocabulary of its own.
"""

from __future__ import annotations

import argparse
import itertools
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import Value, write_gguf

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
