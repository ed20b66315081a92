"""``adapters`` of a node: their options, and the errors of invalid ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.llm.engine.settings import AdapterFile
from calculators.llm.options.node_options import read_node_options
from graph_runtime import Code, ResourceError, ResourceSettings
from tests.calculators.llm.adapter_files import (
    UP,
    safetensors,
    tensors_of,
    write_adapter,
    write_peft,
)
from tests.calculators.llm.demo_model import DEMO, copy_of_demo
from tests.calculators.llm.graph_texts import plan_of, with_options


def read(options: str, directory: Path, model_name: str = "demo") -> tuple[AdapterFile, ...]:
    (node,) = plan_of(with_options(f'models_path: "{DEMO}" {options}')).nodes
    return read_node_options(
        node, ResourceSettings(directory, model_name=model_name)
    ).engine.adapters


def refusal(options: str, directory: Path) -> str:
    with pytest.raises(ResourceError) as caught:
        read(options, directory)
    assert caught.value.code is Code.FAILED_PRECONDITION
    text = str(caught.value)
    assert text.startswith('node "LLMExecutor": ')
    return text.removeprefix('node "LLMExecutor": ')


def refusal_of_file(content: bytes, folder: Path) -> str:
    (folder / "a.safetensors").write_bytes(content)
    return refusal('adapters { name: "a" path: "a.safetensors" }', folder)


def test_without_adapters_there_are_none(tmp_path: Path) -> None:
    assert read("", tmp_path) == ()


def test_a_files_strength_follows_from_alpha(tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "a.safetensors")
    adapters = read(
        'adapters { name: "a" path: "a.safetensors" }'
        f'adapters {{ name: "org/b:1" path: "{path}" alpha: 0.5 }}',
        tmp_path,
    )
    assert adapters == (
        AdapterFile(name="a", path=str(path), alpha=1.0),
        AdapterFile(name="org/b:1", path=str(path), alpha=0.5),
    )


@pytest.mark.parametrize(
    ("config", "alpha", "strength"),
    [
        ({}, "", 8 / 4),
        ({}, "alpha: 0.5", 0.5 * 8 / 4),
        ({"lora_alpha": 3.0}, "", 3 / 4),
        ({"use_rslora": True}, "", 8 / math.sqrt(4)),
        ({"modules_to_save": None, "rank_pattern": {}, "use_dora": False}, "", 2.0),
    ],
)
def test_a_peft_folders_strength_follows_from_its_config(
    config: dict[str, Any], alpha: str, strength: float, tmp_path: Path
) -> None:
    folder = write_peft(tmp_path / "peft", **config)
    (adapter,) = read(f'adapters {{ name: "a" path: "peft" {alpha} }}', tmp_path)
    assert adapter.path == str(folder / "adapter_model.safetensors")
    assert adapter.alpha == pytest.approx(strength)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_the_engines_types_are_accepted(dtype: str, tmp_path: Path) -> None:
    write_adapter(tmp_path / "a.safetensors", dtype)
    assert len(read('adapters { name: "a" path: "a.safetensors" }', tmp_path)) == 1


# Another model's ----------------------------------------------------------------------------------


def test_sizes_of_another_model_are_refused(tmp_path: Path) -> None:
    content = safetensors(tensors_of(inputs=128))
    assert refusal_of_file(content, tmp_path) == (
        'adapters[0] "a": layer model.layers.0.mlp.up_proj has 768 x 256 weights in the model, and '
        "768 x 128 in the adapter, which is for another model"
    )


@pytest.mark.parametrize(
    "layer",
    [
        "transformer.h.{}.fc",
        # The engine would take these for the layers whose names contain theirs.
        "model.layers.{}.mlp.up",
        "layers.{}.mlp.up_proj",
    ],
)
def test_layers_of_another_model_are_refused(layer: str, tmp_path: Path) -> None:
    told = refusal_of_file(safetensors(tensors_of(layer)), tmp_path)
    first = layer.format(0)
    assert told.startswith(f'adapters[0] "a": the model has no layer {first}, so it is for another')


def test_a_misspelt_layer_is_refused(tmp_path: Path) -> None:
    told = refusal_of_file(safetensors(tensors_of("model.layers.{}.mlp.upp_proj")), tmp_path)
    assert "model.layers.0.mlp.up_proj" in told


def test_more_blocks_than_the_model_has_are_refused(tmp_path: Path) -> None:
    tensors = tensors_of() | {
        f"base_model.model.{UP.format(7)}.{name}.weight": tensors_of(rank=4)[
            f"base_model.model.{UP.format(0)}.{name}.weight"
        ]
        for name in ("lora_A", "lora_B")
    }
    assert "the model has no layer model.layers.7.mlp.up_proj" in refusal_of_file(
        safetensors(tensors), tmp_path
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda name: name.replace("base_model.model.", ""), "is none that the engine knows"),
        (lambda name: name.replace("lora_A", "lora_magnitude"), "is none that the engine knows"),
        (lambda name: name.replace("lora_A.weight", "alpha"), "is none that the engine knows"),
    ],
)
def test_tensors_that_are_not_lora_are_refused(
    change: Callable[[str], str], told: str, tmp_path: Path
) -> None:
    tensors = {change(name): values for name, values in tensors_of().items()}
    assert told in refusal_of_file(safetensors(tensors), tmp_path)


def test_half_a_layer_is_refused(tmp_path: Path) -> None:
    tensors = {name: values for name, values in tensors_of().items() if "lora_A" in name}
    told = refusal_of_file(safetensors(tensors), tmp_path)
    assert told == 'adapters[0] "a": layer model.layers.0.mlp.up_proj has no lora_B.weight'


def test_matrices_that_do_not_multiply_are_refused(tmp_path: Path) -> None:
    tensors = tensors_of()
    name = f"base_model.model.{UP.format(0)}.lora_B.weight"
    tensors[name] = tensors[name].T
    told = refusal_of_file(safetensors(tensors), tmp_path)
    assert "lora_A [4, 256] and lora_B [4, 768] are not a pair" in told


# Files that are none ------------------------------------------------------------------------------


GOOD = safetensors(tensors_of())
_HEADER = int.from_bytes(GOOD[:8], "little")


def _with_header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode() + GOOD[8 + _HEADER :]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not a safetensors file, or only a part of one: it has 0 bytes"),
        (b"hello", "is not a safetensors file, or only a part of one"),
        (GOOD[:2000], "is damaged or only a part"),
        (GOOD[:100], "is not a safetensors file, or only a part of one"),
        (GOOD[:-1], "is damaged or only a part"),
        (GOOD + b"x", "is damaged or only a part"),
        (b"\xff" * 8 + GOOD[8:], "which its header does not fit into"),
        ((len(GOOD) * 2).to_bytes(8, "little") + GOOD[8:], "which its header does not fit into"),
        (_with_header("[]"), "its header is not a JSON object"),
        (_with_header("{"), "its header is not a JSON object"),
        (_with_header("[" * 100_000), "its header is not a JSON object"),
        (_with_header('{"a": 1, "a": 2}'), "its header is not a JSON object"),
        (_with_header("{}"), "is damaged or only a part"),
        (_with_header('{"a": 7}'), 'does not describe the tensor "a"'),
        (_with_header('{"a": {"dtype": "F32", "shape": [-1]}}'), "does not describe"),
        (_with_header('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}'), "not place"),
        (_with_header('{"a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}'), "type I8"),
        (
            _with_header('{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}'),
            "does not have the bytes",
        ),
        (
            _with_header('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}'),
            "overlap, or leave gaps",
        ),
        (safetensors({}), "its file has no tensors"),
    ],
    ids=range(20),
)
def test_damaged_files_are_refused(content: bytes, told: str, tmp_path: Path) -> None:
    assert told in refusal_of_file(content, tmp_path)


def test_a_header_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.write((2**30).to_bytes(8, "little"))
        file.truncate(2**31)  # sparse: uses no room on the disk
    told = refusal('adapters { name: "a" path: "a.safetensors" }', tmp_path)
    assert "has a header of 1073741824 bytes" in told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("gone", '"gone" does not exist; it is relative to the directory of the graph'),
        ("../gone.safetensors", "does not exist"),
        ("a.bin", "is no .safetensors file"),
        ("/dev/zero", "is no .safetensors file"),
        ("empty", "has no adapter_model.safetensors"),
        ("bare", "has no adapter_config.json"),
        ("", "has no adapter_model.safetensors"),
    ],
)
def test_paths_that_lead_to_no_adapter_are_refused(path: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    write_adapter(tmp_path / "bare" / "adapter_model.safetensors")
    text = refusal(f'adapters {{ name: "a" path: "{path}" }}', tmp_path)
    assert text.startswith("adapters[0].path: ")
    assert told in text


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"peft_type": "IA3"}, 'peft_type: "IA3"'),
        ({"use_dora": True}, "use_dora: true"),
        ({"bias": "all"}, 'bias: "all"'),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"r": 0}, "needs r, a whole number"),
        ({"r": True}, "needs r, a whole number"),
        ({"r": "4"}, "needs r, a whole number"),
        ({"lora_alpha": math.nan}, "needs r, a whole number"),
        ({"lora_alpha": None}, "needs r, a whole number"),
        ({"r": 8}, "its rank is 4, and adapter_config.json says 8"),
    ],
)
def test_peft_configs_that_cannot_be_honoured_are_refused(
    config: dict[str, Any], told: str, tmp_path: Path
) -> None:
    write_peft(tmp_path / "peft", **config)
    assert told in refusal('adapters { name: "a" path: "peft" }', tmp_path)


def test_a_config_that_is_not_json_is_refused(tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "peft")
    (folder / "adapter_config.json").write_text("[")
    told = refusal('adapters { name: "a" path: "peft" }', tmp_path)
    assert "adapter_config.json is not a JSON object" in told


# Names, strengths, and what they cannot be together with ------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('adapters { name: "" path: "a.safetensors" }', "adapters[0].name: '' is not a name"),
        ('adapters { name: "a b" path: "a.safetensors" }', "adapters[0].name: 'a b' is not a name"),
        ('adapters { name: "/a" path: "a.safetensors" }', "adapters[0].name: '/a' is not a name"),
        (f'adapters {{ name: "{"a" * 257}" path: "a" }}', "is not a name"),
        ('adapters { name: "demo" path: "a.safetensors" }', "is the name of the graph itself"),
        ('adapters { name: "a" path: "a.safetensors" alpha: 0 }', "adapters[0].alpha: 0 is not"),
        ('adapters { name: "a" path: "a.safetensors" alpha: -1 }', "alpha: -1 is not above 0"),
        ('adapters { name: "a" path: "a.safetensors" alpha: nan }', "alpha: nan is not above 0"),
        ('adapters { name: "a" path: "a.safetensors" alpha: inf }', "alpha: inf is not above 0"),
        (
            'adapters { name: "a" path: "a.safetensors" }' * 2,
            'adapters[1].name: "a" is given twice',
        ),
        (
            'enable_prefix_caching: true adapters { name: "a" path: "a.safetensors" }',
            "adapters: not with enable_prefix_caching",
        ),
        (
            'draft_models_path: "x" adapters { name: "a" path: "a.safetensors" }',
            "draft_models_path: not together with adapters",
        ),
        (
            'adapters { name: "a" path: "a.safetensors" }'
            """ plugin_config: '{"prompt_lookup": true}'""",
            "prompt_lookup: not together with adapters",
        ),
        (
            'device: "NPU" adapters { name: "a" path: "a.safetensors" }',
            "adapters: not on device NPU",
        ),
    ],
)
def test_contradicting_options_are_refused(options: str, told: str, tmp_path: Path) -> None:
    write_adapter(tmp_path / "a.safetensors")
    assert told in refusal(options, tmp_path)


def test_adapters_of_a_gguf_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (node,) = plan_of(
        with_options('models_path: "model.gguf" adapters { name: "a" path: "a.safetensors" }')
    ).nodes
    with pytest.raises(ResourceError, match="adapters: not with a GGUF model"):
        read_node_options(node, ResourceSettings(tmp_path))


def test_adapters_of_a_vision_model_are_refused(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    for name in ("language_model", "text_embeddings_model", "vision_embeddings_model"):
        for suffix in ("xml", "bin"):
            (folder / f"openvino_{name}.{suffix}").write_text("x")
    (folder / "preprocessor_config.json").write_text(json.dumps({}))
    (node,) = plan_of(
        with_options('models_path: "model" adapters { name: "a" path: "a.safetensors" }')
    ).nodes
    with pytest.raises(ResourceError, match="adapters: not with a model that sees images"):
        read_node_options(node, ResourceSettings(tmp_path))
