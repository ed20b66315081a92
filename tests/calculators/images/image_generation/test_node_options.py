"""Options of an image node: their effects, and the errors of invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calculators.images.image_generation.node_options import ImageGenOptions, read_image_gen_options
from calculators.images.image_generation.sizes import Size
from graph_runtime import Code, ResourceError, ResourceSettings
from tests.calculators.images.image_generation.image_models import graph, write_lora
from tests.calculators.llm.graph_texts import plan_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "model_index.json").write_text("{}")
    (tmp_path / "loras").mkdir()
    for name in ("a", "b"):
        write_lora(tmp_path / "loras" / f"{name}.safetensors", 1)
    return tmp_path


def read(options: str, directory: Path, **settings: Any) -> ImageGenOptions:
    (node,) = plan_of(graph(options)).nodes
    return read_image_gen_options(node, ResourceSettings(directory, **settings))


LORA = 'lora_adapters { alias: "%s" path: "loras/%s.safetensors" %s }'


def lora(alias: str, more: str = "", file: str = "a") -> str:
    return LORA % (alias, file, more)


def test_without_options_there_are_the_defaults_of_openvino_model_server(directory: Path) -> None:
    options = read("", directory)
    assert options.directory == directory
    assert options.devices == ("CPU",)
    assert (options.largest, options.default_size) == (Size(4096, 4096), None)
    assert (options.sizes, options.static) == ((), None)
    assert (options.max_images, options.default_steps, options.max_steps) == (10, 50, 100)
    assert options.loras.names == ()
    assert options.warnings == ()


def test_a_single_resolution_is_a_static_shape(directory: Path) -> None:
    options = read(
        'resolution: "512x768" num_images_per_prompt: 2 guidance_scale: 5.5 device: "CPU GPU NPU"',
        directory,
    )
    assert options.devices == ("CPU", "GPU", "NPU")
    assert options.static is not None
    assert options.static.size == options.default_size == options.largest == Size(512, 768)
    assert (options.static.images, options.static.guidance_scale) == (2, 5.5)
    assert options.max_images == 2


def test_several_resolutions_are_the_only_sizes(directory: Path) -> None:
    options = read('resolution: " 512x512   64x128 " max_num_images_per_prompt: 3', directory)
    assert options.sizes == (Size(512, 512), Size(64, 128))
    assert (options.static, options.default_size, options.max_images) == (None, None, 3)


def test_the_default_of_steps_is_at_most_the_maximum(directory: Path) -> None:
    options = read("max_num_inference_steps: 20", directory)
    assert (options.default_steps, options.warnings) == (20, ())
    options = read("default_num_inference_steps: 30 max_num_inference_steps: 20", directory)
    assert options.default_steps == 20
    assert "above max_num_inference_steps" in options.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('device: "CPU CPU"', "Invalid number of devices specified: 2. Expected 1 or 3."),
        ('device: " "', "Invalid number of devices specified: 0. Expected 1 or 3."),
        ('device: "CPU XPU CPU"', '"XPU" is not a device of OpenVINO'),
        ('device: "NPU"', "Cannot use NPU without setting static resolution"),
        (
            'device: "CPU NPU CPU" resolution: "64x64 128x128"',
            "NPU cannot have multiple resolutions in static settings",
        ),
        (
            "guidance_scale: 7.5",
            "Cannot explicitly use static guidance scale when not using static resolution",
        ),
        (
            "num_images_per_prompt: 2",
            "Cannot explicitly use static num images per prompt when not using static resolution",
        ),
        (
            'resolution: "64x64" max_resolution: "512x512"',
            "Cannot explicitly use max resolution when using static settings",
        ),
        (
            'resolution: "64x64 128x128" num_images_per_prompt: 2',
            "Cannot use static num images per prompt with multiple resolutions",
        ),
        (
            'resolution: "64x64 128x128" guidance_scale: 2',
            "Cannot use static guidance scale with multiple resolutions",
        ),
        (
            'resolution: "64x64" max_num_images_per_prompt: 2',
            "Cannot explicitly use max num images per prompt when using static settings",
        ),
        (
            'max_resolution: "64x64" default_resolution: "128x64"',
            "Default resolution exceeds maximum allowed resolution: (128x64) > (64x64)",
        ),
        (
            'resolution: "64x64 128x128" default_resolution: "64x128"',
            "Default resolution (64x128) is not among the static resolutions: 64x64, 128x128",
        ),
        ('resolution: "64x64 128x128 64x64"', "Duplicate resolutions found"),
        ('resolution: "64x64 8000x8000"', "resolution: 8000x8000 has more than 40000000 pixels"),
        ('resolution: " "', "No valid resolutions found"),
        ('resolution: "64"', "size field is not in correct format - WxH"),
        ('resolution: "60x64"', "the sides of images are multiples of 8 pixels"),
        ('max_resolution: "auto"', '"auto" is no size'),
        ('default_resolution: "0x64"', "size field values must be greater than 0"),
        ("max_num_images_per_prompt: 0", "max_num_images_per_prompt must be greater than 0"),
        ("default_num_inference_steps: 0", "default_num_inference_steps must be greater than 0"),
        ("max_num_inference_steps: 0", "max_num_inference_steps must be greater than 0"),
        ('resolution: "64x64" num_images_per_prompt: 0', "must be greater than 0"),
        ('resolution: "64x64" num_images_per_prompt: -1', "must be greater than 0"),
        ('resolution: "64x64" guidance_scale: -1', "is not a number from 0 on"),
        ('resolution: "64x64" guidance_scale: nan', "is not a number from 0 on"),
        ("plugin_config: '{'", "plugin_config: not JSON"),
        ("plugin_config: '[]'", "plugin_config: must be a JSON object"),
        (lora("a b"), "Invalid LoRA alias 'a b'"),
        (lora(""), "Invalid LoRA alias ''"),
        (lora("a") + lora("a", file="b"), 'the alias "a" is given twice'),
        (lora("pictures"), "is the name of the model itself"),
        (lora("a", file="c"), 'the file "loras/c.safetensors" does not exist'),
        (lora("a", "alpha: nan"), "alpha is nan"),
        (
            lora("a") + lora("b", "mode: FUSE"),
            "all need the same mode, and they have DYNAMIC, FUSE",
        ),
        ('lora_adapters { alias: "a" path: "model_index.json" }', "is not a .safetensors file"),
        (
            'composite_lora_adapters { alias: "x" components { adapter_alias: "a" } }',
            "Composite LoRA references unknown adapter 'a' in entry: 'x'; there are: none",
        ),
        (lora("a") + 'composite_lora_adapters { alias: "x" }', "it has no components"),
        (
            lora("a") + 'composite_lora_adapters { alias: "a" components { adapter_alias: "a" } }',
            'the alias "a" is given twice',
        ),
        (
            lora("a", "mode: FUSE")
            + 'composite_lora_adapters { alias: "x" components { adapter_alias: "a" } }',
            "composites need adapters with mode: DYNAMIC",
        ),
    ],
)
def test_wrong_options_fail_the_load(directory: Path, text: str, message: str) -> None:
    with pytest.raises(ResourceError) as caught:
        read(text, directory, model_name="pictures")
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert str(caught.value).startswith('node "ImageGenExecutor": ')
    assert message in str(caught.value)


def test_a_directory_without_a_model_fails_the_load(directory: Path) -> None:
    (node,) = plan_of(graph("").replace('"./"', '"gone"')).nodes
    with pytest.raises(ResourceError, match="Models path does not exist: gone"):
        read_image_gen_options(node, ResourceSettings(directory))
    (node,) = plan_of(graph("").replace('"./"', '"loras"')).nodes
    with pytest.raises(ResourceError, match='"loras" has no model_index'):
        read_image_gen_options(node, ResourceSettings(directory))


def test_adapters_are_static_on_an_npu(directory: Path) -> None:
    options = read('device: "NPU" resolution: "64x64" ' + lora("a"), directory)
    assert options.loras.mode == "STATIC"
    assert not options.loras.are_dynamic
