"""Models of GGUF files: served as computed by hand, and refused where something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
import pytest
from openvino._offline_transformations import paged_attention_transformation

from bench.gguf_file import Blocks, write_gguf
from bench.random_model import EXACT, PagedModel
from calculators.kit.checkpoints.checks import check_model
from calculators.kit.checkpoints.decoder import read_decoder
from calculators.kit.checkpoints.family_builders import build_model
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.gguf_converter import convert
from calculators.kit.checkpoints.packed import UNPACKED, OffsetForm, floats_of, stored_bytes, unpack
from calculators.kit.checkpoints.weights import WeightScratch
from graph_runtime import ResourceError
from tests.calculators.kit.checkpoints.expected_logits import ids_for, logits_of, run_model
from tests.calculators.kit.checkpoints.tiny_models import write_tiny
from tests.calculators.kit.checkpoints.vocabularies import byte_level
from tests.support.apart import Apart


def difference(found: Any, wanted: Any) -> float:
    """Return the largest difference, divided by the largest number."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def in_floats(path: Path) -> Path:
    """Write the same model with weights in float32."""
    file = GgufFile(path)
    tensors = {}
    for name, tensor in file.tensors.items():
        rows = floats_of(tensor.type.name, tensor.rows())
        if rows is None:
            rows = unpack(tensor.type.name, tensor.rows()).floats()
        tensors[name] = rows.astype(np.float32).reshape(tensor.shape)
    found = path.with_name("floats.gguf")
    write_gguf(found, file.metadata.scalars, tensors)
    return found


WIDE = {"width": 256, "inner": 256, "size": 64, "layers": 1}


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q2_K", "Q4_K", "Q5_K", "Q6_K", "IQ3_S", "BF16"])
@pytest.mark.parametrize("form", [OffsetForm.EXACT, OffsetForm.SPLIT])
def test_quantized_models_compute_with_the_numbers_of_the_file(
    kind: str, form: OffsetForm, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", 3, kind, **WIDE)
    ids = ids_for(3)[:50]
    wanted = logits_of(in_floats(path), ids)
    assert difference(logits_of(path, ids, form), wanted) < 5e-5


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K", "Q5_1"])
def test_whole_zero_points_stay_near_the_numbers_of_the_file(kind: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", 3, kind, **WIDE)
    ids = ids_for(3)[:50]
    wanted = logits_of(in_floats(path), ids)
    assert difference(logits_of(path, ids, OffsetForm.SCALED), wanted) < 0.1


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K"])
def test_large_matrices_keep_four_bits(kind: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", 3, kind, **{**WIDE, "inner": 2304})
    file, scratch = GgufFile(path), WeightScratch()
    model = build_model(file, read_decoder(file), OffsetForm.SCALED, scratch)
    paged = PagedModel(model)
    constants = [each for each in model.get_ops() if each.get_type_name() == "Constant"]
    narrow = [each for each in constants if each.get_element_type() == ov.Type.u4]
    assert len(narrow) == 3  # gate, up and down
    # Nothing is unpacked: the products read the codes.
    assert "Subtract" not in {operation for operation, _ in paged.kernels()}
    ids = ids_for(3)[:50]
    assert difference(paged.run(ids), logits_of(in_floats(path), ids)) < 0.1


class _Served:
    """openvino-genai's continuous batching with a model."""

    def __init__(self, folder: str) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 1
        scheduler.max_num_batched_tokens = 32
        properties = {**EXACT, "KV_CACHE_PRECISION": "f16"}
        self._pipeline = genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties)

    def tokens(self, prompt: list[int], count: int) -> list[int]:
        """Return the best tokens."""
        settings = genai.GenerationConfig()
        settings.max_new_tokens = count
        settings.ignore_eos = True
        ids = ov.Tensor(np.array([prompt], np.int64))
        handle = self._pipeline.add_request(0, ids, settings)
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        found: list[int] = handle.read_all()[0].generated_ids
        return found


def served_tokens(model: ov.Model, folder: Path, prompt: list[int], count: int) -> list[int]:
    """Return the best tokens that openvino-genai's continuous batching finds."""
    ov.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    config = {"model_type": "tiny", "eos_token_id": 0, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    found: list[int] = Apart(_Served, str(folder)).call("tokens", prompt, count)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "llama-3",
        "gemma3",
        "gemma4",
        "gpt-oss",
        "deepseek2",
        "cohere2",
        "ministral3",
        "bloom",
        "lfm2",
        "qwen35",
        "qwen3next",
    ],
)
def test_a_served_model_answers_as_its_logits_say(name: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", name, 4)
    file, scratch = GgufFile(path), WeightScratch(tmp_path / "weights")
    decoder = read_decoder(file)
    prompt, count = ids_for(4)[:45], 6
    tokens = served_tokens(
        build_model(file, decoder, OffsetForm.SCALED, scratch), tmp_path, prompt, count
    )
    model = run_model(path, OffsetForm.SCALED, scratch)
    logits = model.run([*prompt, *tokens[:-1]])[len(prompt) - 1 :]
    # A cache in float16 may turn near ties.
    chosen = logits[np.arange(count), tokens]
    assert np.all(chosen > logits.max(-1) - 0.02 * np.abs(logits).max())


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("mixtral", {"GatherMatmul": 6, "PagedAttention": 2, "RoPE": 4}),
        ("gpt-oss", {"GatherMatmul": 4, "PagedAttention": 2, "RoPE": 4}),
        # One product for queries, keys and values; the gate's has the activation, so that one
        # operation on single numbers is left beside the two additions.
        (
            "llama",
            {
                "FullyConnected": 5 * 2 + 1,
                "PagedAttention": 2,
                "RoPE": 4,
                "RMS": 5,
                "Eltwise": 3 * 2,
            },
        ),
    ],
)
def test_the_plug_in_finds_its_operations(
    name: str, operations: dict[str, int], tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", name, 1, "Q4_K", **{**WIDE, "layers": 2})
    file, scratch = GgufFile(path), WeightScratch()
    model = PagedModel(build_model(file, read_decoder(file), OffsetForm.SCALED, scratch))
    found: dict[str, int] = {}
    for (operation, _), count in model.kernels().items():
        found[operation] = found.get(operation, 0) + count
    # The scores of experts and the like are small products beside.
    assert {key: found.get(key, 0) for key in operations if key != "FullyConnected"} == {
        key: value for key, value in operations.items() if key != "FullyConnected"
    }
    assert found["FullyConnected"] >= operations.get("FullyConnected", 0)
    if "FullyConnected" in operations:
        assert found["FullyConnected"] == operations["FullyConnected"]


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("lfm2", {"PagedCausalConv1D": 3, "PagedAttentionExtension": 1}),
        (
            "qwen35",
            {"PagedCausalConv1D": 3, "PagedGatedDeltaNet": 3, "PagedAttentionExtension": 1},
        ),
    ],
)
def test_states_of_other_kinds_are_kept_in_tables(
    name: str, operations: dict[str, int], tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", name)
    file, scratch = GgufFile(path), WeightScratch()
    model = build_model(file, read_decoder(file), OffsetForm.SCALED, scratch)
    paged_attention_transformation(model)
    kinds = [node.get_type_name() for node in model.get_ops()]
    assert {kind: kinds.count(kind) for kind in operations} == operations
    assert not {"ReadValue", "Assign", "Loop"} & set(kinds)


def test_windows_are_those_of_the_file(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "gemma3")
    file, scratch = GgufFile(path), WeightScratch()
    model = PagedModel(build_model(file, read_decoder(file), OffsetForm.SCALED, scratch))
    assert sorted(model.windows) == [0, 24, 24, 24, 24, 24]


def test_inputs_of_small_groups_are_rounded_in_small_groups(tmp_path: Path) -> None:
    groups = {}
    for kind in ("Q4_K", "Q6_K", "F16"):
        path = write_tiny(tmp_path / "m.gguf", "llama", 1, kind, **WIDE)
        file, scratch = GgufFile(path), WeightScratch()
        model = build_model(file, read_decoder(file), OffsetForm.SCALED, scratch)
        key = ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"]
        groups[kind] = model.get_rt_info(key).astype(str) if model.has_rt_info(key) else ""
    assert groups == {"Q4_K": "32", "Q6_K": "16", "F16": ""}


@pytest.mark.parametrize("form", list(OffsetForm))
@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q8_0", "F16"])
def test_a_model_takes_the_bytes_that_were_told(
    kind: str, form: OffsetForm, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", 1, kind, **{**WIDE, "inner": 512})
    file, scratch = GgufFile(path), WeightScratch(tmp_path / "weights")
    model = build_model(file, read_decoder(file), form, scratch)
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    told = sum(
        stored_bytes(tensor.type.name, tensor.weights, form) for tensor in file.tensors.values()
    )
    assert told <= (tmp_path / "model.bin").stat().st_size < told * 1.02 + 16_384


@pytest.mark.parametrize("form", [OffsetForm.SCALED, OffsetForm.SPLIT])
@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K"])
def test_large_matrices_are_converted_as_they_are_built(
    kind: str, form: OffsetForm, tmp_path: Path
) -> None:
    sizes = {"width": 512, "inner": 1280, "size": 64, "layers": 1}  # more weights than LARGE
    path = write_tiny(tmp_path / "m.gguf", "llama", 1, kind, more=byte_level(), **sizes)
    directory = tmp_path / "converted"
    directory.mkdir()
    convert(path, directory, form, 1, lambda phase: None)
    ids = list(range(1, 20))
    file, scratch = GgufFile(path), WeightScratch()
    built = build_model(file, read_decoder(file), form, scratch)
    expected = PagedModel(built).run(ids)
    found = PagedModel(ov.Core().read_model(directory / "openvino_model.xml")).run(ids)
    assert np.array_equal(found, expected)


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def without(name: str) -> Change:
    return lambda values, tensors: tensors.pop(name)


def with_value(key: str, value: Any) -> Change:
    return lambda values, tensors: values.__setitem__(key, value)


def with_tensor(name: str, *shape: int) -> Change:
    return lambda values, tensors: tensors.__setitem__(name, np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("blk.1.attn_norm.weight"), 'lacks the tensor "blk.1.attn_norm.weight"'),
        (without("blk.0.ffn_down.weight"), 'lacks the tensor "blk.0.ffn_down.weight"'),
        (without("token_embd.weight"), 'lacks the tensor "token_embd.weight"'),
        (with_tensor("blk.0.attn_extra.weight", 4), "does not have: blk.0.attn_extra.weight"),
        (with_tensor("blk.7.attn_norm.weight", 64), "do not have: blk.7.attn_norm.weight"),
        (
            with_tensor("blk.0.attn_k.weight", 16, 64),
            '"blk.0.attn_k.weight" has the shape [16, 64], and the rest of the file wants the '
            "shape [32, 64]",
        ),
        (with_tensor("output_norm.weight", 63), '"output_norm.weight" has the shape [63]'),
        (with_tensor("output.weight", 95, 64), "wants the shape [96, 64]"),
        (with_value("llama.block_count", 1), "do not have: blk.1.attn_norm.weight"),
        (with_value("llama.block_count", 3), 'lacks the tensor "blk.2.attn_norm.weight"'),
        (with_value("llama.block_count", 1 << 30), "from 1 to 4096, not 1073741824"),
        (with_value("llama.embedding_length", 128), '"token_embd.weight" has the shape [96, 64]'),
        (with_value("llama.embedding_length", "64"), "must be a whole number, not '64'"),
        (with_value("llama.attention.head_count", 3), "3 heads of queries and 2 of keys"),
        (with_value("llama.attention.head_count", [4]), "has 1 numbers for 2 layers"),
        (with_value("llama.attention.head_count_kv", 0), "from 1 to 1048576, not 0"),
        (with_value("llama.rope.dimension_count", 15), "is 15, which is odd"),
        (
            with_value("llama.rope.dimension_count", 32),
            "is 32, and at most 16 numbers of a head can rotate",
        ),
        (with_value("llama.rope.freq_base", float("nan")), "must be a number, not nan"),
        (with_value("llama.expert_count", 4), "is 0, of 4 experts"),
        (with_value("llama.rope.freq_base", -10000.0), "must not be negative, and is -10000"),
        (with_value("llama.rope.scaling.factor", -4.0), "must not be negative, and is -4"),
        (with_value("llama.rope.scaling.type", "spiral"), "is 'spiral'; known are none, linear"),
        (with_value("llama.context_length", 0), "must be a whole number from 1 to 2147483647"),
        (with_value("llama.feed_forward_length", "many"), "must be a whole number, not 'many'"),
        (with_value("llama.attention.layer_norm_rms_epsilon", -1.0), "must not be negative"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(
    change: Change, reason: str, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    file = GgufFile(path)
    values: dict[str, Any] = dict(file.metadata.scalars)
    tensors: dict[str, Any] = {
        name: np.array(tensor.rows()).view("<f4").reshape(tensor.shape)
        for name, tensor in file.tensors.items()
    }
    change(values, tensors)
    write_gguf(path, values, tensors)

    def checked() -> ov.Model:
        return build_model(GgufFile(path), check_model(path), OffsetForm.SCALED, WeightScratch())

    with pytest.raises(ResourceError) as info:
        checked()
    assert str(info.value).startswith('"m.gguf"')
    assert reason in str(info.value)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16"])
def test_numbers_that_are_not_finite_are_refused(kind: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", 1, kind, layers=1)
    tensor = GgufFile(path).tensors["blk.0.ffn_up.weight"]
    with path.open("r+b") as file:
        file.seek(tensor.offset + tensor.size // 2 // tensor.type.size * tensor.type.size)
        file.write(np.array([np.nan], "<f2").tobytes())
    file_, scratch = GgufFile(path), WeightScratch()
    with pytest.raises(ResourceError, match=r'"blk.0.ffn_up.weight" has numbers that are not fin'):
        build_model(file_, read_decoder(file_), OffsetForm.SCALED, scratch)


def test_a_type_that_cannot_be_computed_is_named(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", layers=1)
    file = GgufFile(path)
    tensors: dict[str, Any] = {
        name: np.array(tensor.rows()).view("<f4").reshape(tensor.shape)
        for name, tensor in file.tensors.items()
    }
    tensors["blk.0.attn_q.weight"] = Blocks(24, (64, 64), np.zeros(64 * 64, np.uint8))
    write_gguf(path, file.metadata.scalars, tensors)
    with pytest.raises(ResourceError, match=r'"blk.0.attn_q.weight" is of the type I8, which'):
        check_model(path)
    assert "I8" not in UNPACKED
