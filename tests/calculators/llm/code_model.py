"""A tiny model with random weights whose tokenizer can fill in text, as a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gguf_file import Value, write_gguf
from bench.random_model import TINY, metadata, weights, write_graph

QWEN = (
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
_TOKENS, _TYPES, _MERGES = (f"tokenizer.ggml.{each}" for each in ("tokens", "token_type", "merges"))
_CONTROL = 3


def with_tokens(facts: Mapping[str, Value], texts: Sequence[str]) -> dict[str, Value]:
    """Return the metadata of a byte-level vocabulary whose last tokens are these special ones."""
    tokens, types, merges = (facts[each] for each in (_TOKENS, _TYPES, _MERGES))
    assert isinstance(tokens, list)
    assert isinstance(types, list)
    assert isinstance(merges, list)
    kept = len(tokens) - len(texts)
    replaced = set(tokens[kept:])
    return {
        **facts,
        _TOKENS: [*tokens[:kept], *texts],
        _TYPES: [*types[:kept], *[_CONTROL] * len(texts)],
        _MERGES: [each for each in merges if "".join(each.split(" ")) not in replaced],
    }


def make_code_model(
    directory: Path, texts: Sequence[str] = QWEN, more: Mapping[str, Value] | None = None
) -> Path:
    """Write the model and its graph; return the path of the GGUF file.

    Args:
        texts: its special tokens, beside those of every tiny model.
        more: further metadata of the file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "model.gguf"
    facts = {**with_tokens(metadata(TINY), texts), **(more or {})}
    write_gguf(path, facts, dict(weights(TINY)))
    write_graph(directory, path)
    return path
