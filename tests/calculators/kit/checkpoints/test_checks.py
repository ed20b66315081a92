"""A file whose tensors or values do not fit together is refused by its header, which names them."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.gguf_file import write_gguf
from bench.random_model import TINY, metadata, weights
from calculators.kit.checkpoints.checks import check_file
from calculators.kit.checkpoints.families import ENCODERS
from calculators.kit.checkpoints.gguf import GgufFile
from graphrt_base.errors import ResourceError
from tests.calculators.kit.checkpoints.tiny_encoders import write_encoder
from tests.calculators.kit.checkpoints.tiny_models import CASES, write_tiny

#: Tensors without which a file is one of another, right model: the output layer is the embedding
#: then, or frequencies have no factors.
OPTIONAL = {"output.weight", "rope_freqs.weight"}


def reason_of(file: GgufFile) -> str:
    """Return why a file is refused; "" if it is not."""
    try:
        check_file(file)
    except ResourceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CASES)
def test_no_tensor_can_be_left_out(name: str, tmp_path: Path) -> None:
    file = GgufFile(write_tiny(tmp_path / "m.gguf", name, layers=max(2, CASES[name].layers)))
    check_file(file)
    accepted = set()
    for tensor in list(file.tensors):
        left = file.tensors.pop(tensor)
        reason = reason_of(file)
        assert not reason or f'lacks the tensor "{tensor}"' in reason
        if not reason:
            accepted.add(tensor)
        file.tensors[tensor] = left
    # The only layers of their kind in these small models.
    single = {each for each in accepted if each.startswith("blk.")}
    assert accepted - single <= OPTIONAL
    assert not single or name.startswith(("deepseek2", "gemma4"))


@pytest.mark.parametrize("architecture", ["bert", "modern-bert", "jina-bert-v2"])
def test_layers_of_encoders_are_alike(architecture: str, tmp_path: Path) -> None:
    file = GgufFile(write_encoder(tmp_path / "m.gguf", architecture, 1))
    check_file(file)
    del file.tensors["blk.1.attn_output.weight"]
    with pytest.raises(
        ResourceError, match=r'"m.gguf" lacks the tensor "blk.1.attn_output.weight"'
    ):
        check_file(file)


def test_a_file_with_fewer_layers_than_it_says_is_refused(tmp_path: Path) -> None:
    file = GgufFile(write_tiny(tmp_path / "m.gguf", "llama"))
    for name in list(file.tensors):
        if name.startswith("blk.1."):
            del file.tensors[name]
    with pytest.raises(ResourceError, match=r'lacks the tensor "blk.1.attn_norm.weight"'):
        check_file(file)


def other_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes that differ in one length, and the transposed one."""
    for place, length in enumerate(shape):
        for other in (3 * length, length - 1):
            if other:
                yield (*shape[:place], other, *shape[place + 1 :])
    if shape[::-1] != shape:
        yield shape[::-1]


def accepted_shapes(file: GgufFile) -> set[str]:
    """Return the tensors that may have another shape, and those of which another one is named."""
    found = set()
    for name, tensor in list(file.tensors.items()):
        for shape in other_shapes(tensor.shape):
            file.tensors[name] = replace(tensor, shape=shape)
            if not reason_of(file).startswith('"m.gguf"'):
                found.add(name)
        file.tensors[name] = tensor
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_tensor_of_another_shape_is_refused(name: str, tmp_path: Path) -> None:
    accepted = accepted_shapes(GgufFile(write_tiny(tmp_path / "m.gguf", name)))
    # The vocabulary says how many rows it has; there may be more positions than are served.
    assert accepted <= {"token_embd.weight", "position_embd.weight"}


@pytest.mark.parametrize("architecture", ["qwen3", *sorted(ENCODERS)])
def test_a_tensor_of_an_encoder_of_another_shape_is_refused(
    architecture: str, tmp_path: Path
) -> None:
    pooling = 4 if architecture in ("bert", "modern-bert", "jina-bert-v2", "qwen3") else 1
    accepted = accepted_shapes(GgufFile(write_encoder(tmp_path / "m.gguf", architecture, pooling)))
    # Any number of kinds of texts, and of numbers of a vector; a head has one number or two.
    assert accepted <= {
        "token_embd.weight",
        "position_embd.weight",
        "token_types.weight",
        "dense_3.weight",
        "cls.output.weight",
    }


#: Values of other types and sizes than a key has.
ODD: list[Any] = [
    math.nan,
    -1.5,
    3e38,
    2**32 - 1,
    3,
    "seven",
    True,
    [math.nan] * 9,
    [-3] * 9,
    ["a"] * 9,
]
#: Keys that models of every family have.
NEEDED = (
    "context_length",
    "embedding_length",
    "block_count",
    "attention.head_count",
    "rope.freq_base",
)
FURTHER = (
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.kv_lora_rank",
    "attention.key_length_mla",
    "attention.recurrent_layers",
    "expert_count",
    "expert_used_count",
    "expert_group_count",
    "nextn_predict_layers",
    "pooling_type",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "ssm.inner_size",
    "ssm.state_size",
)


@pytest.mark.parametrize("name", ["llama-yarn", "deepseek2", "gemma4", "qwen35"])
def test_no_value_breaks_the_reader(name: str, tmp_path: Path) -> None:
    for key in (*NEEDED, *FURTHER):
        for value in ODD:
            path = write_tiny(tmp_path / "m.gguf", name, more={key: value})
            reason = reason_of(GgufFile(path))
            assert not reason or reason.startswith('"m.gguf"')
            if key in NEEDED and isinstance(value, (str, bool)):
                assert f'{key}" must be a' in reason


@pytest.mark.parametrize("name", ["llama-yarn", "bloom", "deepseek2", "gemma4"])
def test_no_number_takes_memory(name: str, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    tracemalloc.start()
    for key in (*NEEDED, *FURTHER):
        reason_of(GgufFile(write_tiny(file, name, more={key: 2**31 - 2})))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("attention.head_count", [math.nan] * 2, "must be a list of whole numbers"),
        ("attention.head_count_kv", [-1] * 2, "is -1 for layer 0"),
        ("rope.freq_base", 1.0, "must be more than 1, and is 1"),
        ("attention.layer_norm_rms_epsilon", 3e38, "must be at most 1, and is 3e+38"),
        ("rope.scaling.attn_factor", -1.0, "must not be negative, and is -1"),
        ("rope.freq_base", 1e-40, "must be in the range of float32"),
    ],
)
def test_a_value_that_no_model_has_is_refused(
    key: str, value: Any, reason: str, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama-yarn", more={key: value})
    assert f'the value "llama.{key}" {reason}' in reason_of(GgufFile(path))


def test_a_model_with_less_numbers_than_heads_is_refused(tmp_path: Path) -> None:
    more = {"embedding_length": 3, "attention.key_length": 0}
    file = GgufFile(write_tiny(tmp_path / "m.gguf", "llama", more=more))
    assert '"llama.embedding_length" is 3, less than the 4 heads' in reason_of(file)


def test_only_a_family_with_gates_has_a_joined_gate(tmp_path: Path) -> None:
    """Without gates, inputs twice as long as outputs are no gate and input."""
    file = GgufFile(write_tiny(tmp_path / "m.gguf", "starcoder2"))
    for layer in (0, 1):
        name = f"blk.{layer}.ffn_down.weight"
        down = file.tensors[name]
        file.tensors[name] = replace(down, shape=(down.shape[0], down.shape[1] // 2))
    assert "ffn_up.weight" in reason_of(file) or "ffn_down.weight" in reason_of(file)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("temp", -7.0, "is -7, and must be at least 0"),
        ("top_p", 5.0, "is 5, and must be above 0 and up to 1"),
        ("min_p", 1.0, "is 1, and must be from 0 to below 1"),
        ("penalty_repeat", 0.0, "is 0, and must be above 0"),
    ],
)
def test_a_default_of_sampling_that_no_request_may_have_is_refused(
    name: str, value: float, wanted: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, {**metadata(TINY), f"general.sampling.{name}": value}, dict(weights(TINY)))
    assert f'the value "general.sampling.{name}" {wanted}' in reason_of(GgufFile(path))
