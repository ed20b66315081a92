"""Facts of models, from their files: caches, and what the engine can read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.checkpoints.checks import check_model
from calculators.llm.model_files import CacheShape, cache_size_for, read_cache_shape
from graph_runtime import ResourceError
from tests.calculators.kit.checkpoints.tiny_models import write_tiny

SMOLLM2 = CacheShape({(64, 64): 90}, length=8192)
GIB = 1 << 30


def gguf(path: Path, **facts: Any) -> Path:
    """A GGUF file with one tensor of nothing."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    parts = [b"GGUF", struct.pack("<IQQ", 3, 1, len(facts))]
    for key, value in facts.items():
        parts.append(text(key.replace("__", ".")))
        if isinstance(value, str):
            parts.append(struct.pack("<I", 8) + text(value))
        else:
            parts.append(struct.pack("<II", 4, value))
    parts.append(text("weights") + struct.pack("<IQIQ", 1, 1, 0, 0))
    path.write_bytes(b"".join(parts) + b"\0" * 64)
    return path


def test_a_token_takes_what_the_engine_says() -> None:
    assert SMOLLM2.bytes_per_token() * 32 == 437_760


def test_the_shape_is_read_from_a_gguf_file(tmp_path: Path) -> None:
    file = gguf(
        tmp_path / "m.gguf",
        general__architecture="llama",
        llama__block_count=30,
        llama__embedding_length=576,
        llama__attention__head_count=9,
        llama__attention__head_count_kv=3,
        llama__context_length=8192,
    )
    assert read_cache_shape(file) == SMOLLM2


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("llama", {(16, 16): 4}),
        ("lfm2", {(16, 16): 2}),  # three of four layers are convolutions
        ("qwen35", {(16, 16): 2}),  # three of four layers are linear attention
        ("gemma4", {(16, 16): 2, (32, 32): 1}),  # the last three share those of others
        ("deepseek2", {(40, 32): 2}),  # one latent vector, which the keys have 8 numbers beside
    ],
)
def test_only_layers_with_keys_and_values_take_cache(
    tmp_path: Path, name: str, heads: dict[tuple[int, int], int]
) -> None:
    shape = read_cache_shape(write_tiny(tmp_path / "m.gguf", name))
    assert shape == CacheShape(heads, 512)


@pytest.mark.parametrize("nested", [False, True])
def test_the_shape_is_read_from_a_config(tmp_path: Path, nested: bool) -> None:
    config: dict[str, Any] = {
        "num_hidden_layers": 30,
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
    }
    written = {"text_config": config, "hidden_size": 9} if nested else config
    (tmp_path / "config.json").write_text(json.dumps(written))
    assert read_cache_shape(tmp_path) == SMOLLM2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"num_hidden_layers": -1, "head_dim": "64"}'])
def test_files_that_do_not_say_give_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "m.gguf").write_text(text)
    assert read_cache_shape(tmp_path) is None
    assert read_cache_shape(tmp_path / "m.gguf") is None


def test_a_cache_keeps_many_conversations_and_leaves_memory() -> None:
    assert cache_size_for(SMOLLM2, 24 * GIB) == 4
    assert cache_size_for(SMOLLM2, 8 * GIB) == 2
    assert cache_size_for(SMOLLM2, 64 * GIB, "f16") == 6
    assert cache_size_for(SMOLLM2, 64 * GIB, "f32") == 12
    assert cache_size_for(SMOLLM2, 1 * GIB) == 1
    assert cache_size_for(SMOLLM2._replace(length=256), 64 * GIB) == 1


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {"general__architecture": "mamba"},
            'of the architecture "mamba", which needs selective state spaces',
        ),
        ({"general__architecture": "bert"}, 'the value "bert.embedding_length" must be'),
        ({"general__architecture": "clip"}, "holds the eyes of a model"),
        ({"general__architecture": "unheard"}, '"unheard", which is not known; known are arcee, '),
        (
            {"general__architecture": "llama", "general__type": "adapter"},
            "is not a language model: its \"general.type\" is 'adapter'; merge the adapter",
        ),
        (
            {"general__architecture": "llama"},
            'the value "llama.embedding_length" must be a whole number from 1 to',
        ),
        ({}, 'does not say its "general.architecture"'),
        ({"general__architecture": "llama", "split__count": 3}, "is one of 3 files of a model"),
    ],
)
def test_a_file_that_the_engine_cannot_read_is_refused_by_name(
    tmp_path: Path, facts: dict[str, Any], message: str
) -> None:
    file = gguf(tmp_path / "m.gguf", **facts)
    with pytest.raises(ResourceError, match=message):
        check_model(file)
