"""The task: the graph that it writes, the directories that it recognizes, its flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from calculators.images.image_generation.node_options import OPTIONS_TYPE
from calculators.images.image_generation.task import (
    TASK,
    ImageGenerationOptions,
    parse_source_loras,
    read_size,
    read_sizes,
    scale,
    source_loras,
)
from calculators.kit.tasks.task import ModelToServe, TaskError
from graph_runtime import find_options
from tests.calculators.llm.graph_texts import plan_of


def options_of(**options: Any) -> Any:
    """Return the options of the node that the task writes."""
    model = ModelToServe(path=Path("/m"), models_path="./", memory=1)
    (node,) = plan_of(TASK.graph(options, model)).nodes
    assert node.config.name == "ImageGenExecutor"
    return find_options(node.config, OPTIONS_TYPE)


def test_a_graph_has_the_given_options_only() -> None:
    options = options_of()
    assert [field.name for field, _ in options.ListFields()] == ["models_path"]
    options = options_of(
        target_device="CPU GPU CPU",
        plugin_config='{"NUM_STREAMS": "1"}',
        max_resolution="1024x512",
        default_resolution="512x512",
        max_num_images_per_prompt=3,
        default_num_inference_steps=4,
        max_num_inference_steps=5,
        source_loras="ink=loras/ink.safetensors:0.5, oil=C:\\oil.safetensors,both=@ink+@oil:0.25",
    )
    assert options.device == "CPU GPU CPU"
    assert options.plugin_config == '{"NUM_STREAMS": "1"}'
    assert (options.max_resolution, options.default_resolution) == ("1024x512", "512x512")
    assert options.max_num_images_per_prompt == 3
    assert (options.default_num_inference_steps, options.max_num_inference_steps) == (4, 5)
    assert [(each.alias, each.path, each.alpha) for each in options.lora_adapters] == [
        ("ink", "loras/ink.safetensors", 0.5),
        ("oil", "C:\\oil.safetensors", 1.0),
    ]
    (both,) = options.composite_lora_adapters
    assert [(each.adapter_alias, each.alpha) for each in both.components] == [
        ("ink", 1.0),
        ("oil", 0.25),
    ]
    static = options_of(resolution="64x64", num_images_per_prompt=2, guidance_scale=0.0)
    assert (static.resolution, static.num_images_per_prompt) == ("64x64", 2)
    assert static.HasField("guidance_scale")


def test_adapters_are_further_names() -> None:
    model = ModelToServe(path=Path("/m"), models_path="./", memory=1)
    loras = "ink=ink.safetensors,mix=@ink:0.5"
    plan = plan_of(TASK.graph({"source_loras": loras}, model))
    assert list(TASK.further_names(plan.config)) == ["ink", "mix"]


def test_an_adapter_that_does_not_exist_is_an_error_of_the_flag(tmp_path: Path) -> None:
    directory = tmp_path / "models" / "tiny"
    directory.mkdir(parents=True)
    model = ModelToServe(path=directory, models_path="models/tiny", memory=1)
    loras = {"source_loras": "a=models/tiny/a.safetensors:0.5"}
    with pytest.raises(TaskError) as caught:
        TASK.graph(loras, model)
    assert str(caught.value) == (
        "Local LoRA file does not exist: 'models/tiny/a.safetensors' in --source_loras entry: "
        "'a=models/tiny/a.safetensors:0.5'"
    )
    (directory / "a.safetensors").touch()
    assert "a.safetensors" in TASK.graph(loras, model)


def test_a_wrong_plugin_config_is_an_error_of_the_flag() -> None:
    with pytest.raises(TaskError, match="--plugin_config: not JSON"):
        options_of(plugin_config="{")


@pytest.mark.parametrize(
    ("source", "file", "alpha"),
    [
        ("org/name", "org/name", 1.0),
        ("org/name:0.8", "org/name", 0.8),
        ("org/name@a%20b.safetensors", "org/name@a b.safetensors", 1.0),
        ("org/name@deep/x.safetensors:0.5", "org/name@deep/x.safetensors", 0.5),
        ("https://huggingface.co/org/name/resolve/main/x.safetensors", "org/name@x.safetensors", 1),
        ("https://hf.co/org/name/resolve/main/x.safetensors:2", "org/name@x.safetensors", 2),
    ],
)
def test_an_adapter_may_be_one_of_a_hub(source: str, file: str, alpha: float) -> None:
    found = parse_source_loras(f"a={source}")
    assert found.adapters == {"a": (file, alpha)}
    assert list(TASK.hub_files({"source_loras": f"a={source},b=@a"})) == [file]
    placed = TASK.with_files({"source_loras": f"a={source},b=@a:2"}, {file: "loras/x.safetensors"})
    assert placed["source_loras"] == f"a=loras/x.safetensors:{alpha:g},b=@a:2"


@pytest.mark.parametrize("source", ["x.safetensors", "a/b.safetensors", "/a/b@c.safetensors"])
def test_a_path_is_no_file_of_a_hub(source: str) -> None:
    assert list(TASK.hub_files({"source_loras": f"a={source}"})) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ink", "Missing alias in --source_loras entry: 'ink'. Expected format: alias=source"),
        ("a b=x.safetensors", "Invalid LoRA alias 'a b' in --source_loras entry"),
        ("a=x.safetensors,a=y.safetensors", "the alias 'a' is given twice"),
        ("a=x.bin", "a .safetensors file is needed"),
        ("a=org/name@x.bin", "a .safetensors file is needed"),
        ("a=name", "a path, or org/name of a hub"),
        ("a=./org/name", "a .safetensors file is needed"),
        ("a=https://x.org/x.safetensors", "adapters are downloaded from a hub only"),
        ("a=org/name:strong", "Invalid alpha value 'strong'"),
        ("a=x.safetensors:strong", "Invalid alpha value 'strong' in --source_loras entry"),
        ("a=x.safetensors:nan", "Invalid alpha value 'nan'"),
        ("x=@a", "Composite LoRA references unknown adapter 'a' in entry: 'x'"),
        ("a=x.safetensors,x=@a+b", "components are written @alias:alpha"),
    ],
)
def test_wrong_adapters_are_refused(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        source_loras(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_size, "64"),
        (read_size, "auto"),
        (read_size, "60x64"),
        (read_sizes, ""),
        (read_sizes, "64x64 64x64"),
        (read_sizes, "64x64,128x128"),
        (scale, "-1"),
        (scale, "nan"),
        (scale, "x"),
    ],
)
def test_wrong_values_of_flags_are_refused(read: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


def test_a_directory_of_diffusers_is_recognized(tmp_path: Path) -> None:
    assert not TASK.recognizes(tmp_path)
    (tmp_path / "model_index.json").write_text("{}")
    assert not TASK.recognizes(tmp_path)
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "diffusion_pytorch_model.safetensors").touch()
    assert TASK.recognizes_source(tmp_path)
    assert not TASK.recognizes(tmp_path)
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "openvino_model.xml").touch()
    assert TASK.recognizes(tmp_path)
    assert TASK.export_arguments(tmp_path) == ("--task", "text-to-image")


def test_options_without_values_are_the_nodes_own() -> None:
    assert ImageGenerationOptions().resolution == ""
    assert ImageGenerationOptions().max_num_inference_steps is None
