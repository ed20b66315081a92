"""Settings of a model in the configuration change its inputs and its results."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_loading import load_model
from calculators.tensors.openvino.model_settings import ANY_LENGTH, Dimension, ModelSettings
from graph_runtime import Code, GraphError
from tests.calculators.tensors.openvino.tiny_models import add_model, named, parameter, save


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """``OUT`` = ``IMAGE`` * 2; one image of 3 channels, 4 rows and 5 columns, in NCHW."""
    node = parameter("IMAGE", [1, 3, 4, 5])
    out = named(op.multiply(node, np.float32(2)), "OUT")
    save(openvino.Model([op.result(out)], [node], "image"), tmp_path / "image" / "m.xml")
    return tmp_path / "image" / "m.xml"


def load(file: Path, **settings: Any) -> Model:
    return load_model(file, "m", 1, ModelSettings(**settings))


def shapes(model: Model) -> list[str]:
    return [spec.shape_text for spec in (*model.inputs, *model.outputs)]


def run(model: Model, **inputs: Any) -> Any:
    """Return the only output."""
    (output,) = asyncio.run(model.infer(inputs)).values()
    return output


def pixels(dtype: Any, *shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


# Shapes and batches -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, "[1,3,4,5]"),
        ({"shapes": {"": None}}, "[?,?,?,?]"),
        ({"shapes": {"IMAGE": None}}, "[?,?,?,?]"),
        ({"shapes": {"": (Dimension(2, 2),) * 4}}, "[2,2,2,2]"),
        (
            {"shapes": {"IMAGE": (ANY_LENGTH, Dimension(3, 3), Dimension(2, 8), Dimension(5, 5))}},
            "[?,3,2..8,5]",
        ),
        ({"batch_size": Dimension(7, 7)}, "[7,3,4,5]"),
        ({"batch_size": ANY_LENGTH}, "[?,3,4,5]"),
        ({"batch_size": Dimension(2, 8)}, "[2..8,3,4,5]"),
        # The axis of the batch is the one that the layout calls N.
        ({"batch_size": Dimension(7, 7), "layouts": {"": ("CNHW", "CNHW")}}, "[1,7,4,5]"),
        ({"batch_size": Dimension(7, 7), "layouts": {"": ("CHWD", "CHWD")}}, "[1,3,4,5]"),
        # Shapes are applied before the batch size.
        ({"batch_size": Dimension(7, 7), "shapes": {"": None}}, "[?,?,?,?]"),
    ],
)
def test_shapes_and_batches_can_be_set(image: Path, settings: Any, shape: str) -> None:
    assert shapes(load(image, **settings)) == [shape, shape]


def test_a_model_of_any_shape_computes_all_of_them(image: Path) -> None:
    model = load(image, shapes={"": None})
    for shape in [(1, 3, 4, 5), (2, 1, 1, 9)]:
        assert np.array_equal(run(model, IMAGE=pixels("f4", *shape)), pixels("f4", *shape) * 2)


def test_shapes_can_be_set_by_input(tmp_path: Path) -> None:
    save(add_model(), tmp_path / "m.xml")
    model = load(tmp_path / "m.xml", shapes={"A": (Dimension(3, 3),)})
    assert [spec.shape_text for spec in model.inputs] == ["[3]", "[?]"]


# Layouts and what comes with them -----------------------------------------------------------------


def test_images_are_accepted_in_another_layout(image: Path) -> None:
    model = load(image, layouts={"": ("NHWC", "NCHW")})
    assert shapes(model) == ["[1,4,5,3]", "[1,3,4,5]"]
    sent = pixels("f4", 1, 4, 5, 3)
    assert np.array_equal(run(model, IMAGE=sent), sent.transpose(0, 3, 1, 2) * 2)


def test_images_are_returned_in_another_layout(image: Path) -> None:
    model = load(image, layouts={"IMAGE": ("NHWC", "NCHW"), "OUT": ("NHWC", "NCHW")})
    assert shapes(model) == ["[1,4,5,3]", "[1,4,5,3]"]
    sent = pixels("f4", 1, 4, 5, 3)
    assert np.array_equal(run(model, IMAGE=sent), sent * 2)


def test_a_shape_is_that_of_the_layout_that_clients_send(image: Path) -> None:
    sizes = [Dimension(size, size) for size in (1, 8, 8, 3)]
    model = load(image, layouts={"": ("NHWC", "NCHW")}, shapes={"": tuple(sizes)})
    assert shapes(model) == ["[1,8,8,3]", "[1,3,8,8]"]


def test_colours_element_type_mean_and_scale_can_be_set(image: Path) -> None:
    model = load(
        image,
        layouts={"": ("NHWC", "NCHW")},
        precision=("u8", "f32"),
        color_format=("BGR", "RGB"),
        mean=(1.0, 2.0, 3.0),
        scale=2.0,
    )
    assert model.inputs[0].element_type == "u8"
    sent = pixels("u1", 1, 4, 5, 3)
    taken = (sent[..., ::-1].astype("f4") - [1, 2, 3]) / 2
    assert np.allclose(run(model, IMAGE=sent), taken.transpose(0, 3, 1, 2) * 2)


def test_one_mean_and_scale_may_be_for_all_channels(image: Path) -> None:
    model = load(image, mean=1.0, scale=4.0)
    sent = pixels("f4", 1, 3, 4, 5)
    assert np.allclose(run(model, IMAGE=sent), (sent - 1) / 4 * 2)


# Contradictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"shapes": {"IMAGES": None}},
            'shape: the model has no tensor "IMAGES"; it has IMAGE. Did',
        ),
        ({"shapes": {"OUT": None}}, 'shape: the model has no tensor "OUT"; it has IMAGE'),
        (
            {"layouts": {"X": ("N...", "N...")}},
            'layout: the model has no tensor "X"; it has IMAGE, OUT',
        ),
        ({"layouts": {"": ("NH", "NCHW")}}, "layout, precision, color_format, mean or scale: "),
        ({"mean": (1.0, 2.0, 3.0)}, "doesn't have `channels` dimension"),
        ({"target_device": "XPU"}, 'OpenVINO on XPU: Device with "XPU" name is not registered'),
        ({"plugin_config": {"NO_SUCH": 1}}, "Unsupported property NO_SUCH by CPU plugin"),
    ],
)
def test_a_setting_that_does_not_fit_the_model_is_refused(
    image: Path, settings: Any, message: str
) -> None:
    with pytest.raises(GraphError) as caught:
        load(image, **settings)
    assert message in str(caught.value)
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert ".cpp" not in str(caught.value)
    assert str(image.parent) not in str(caught.value)


def test_a_shape_that_the_model_cannot_have_is_refused(tmp_path: Path) -> None:
    x = parameter("X", [1, 2])
    y = op.matmul(x, op.constant(np.ones((2, 3), np.float32)), False, False)
    save(openvino.Model([op.result(named(y, "Y"))], [x], "m"), tmp_path / "m.xml")
    with pytest.raises(GraphError, match="shape: the model cannot have it: "):
        load(tmp_path / "m.xml", shapes={"": (Dimension(1, 1), Dimension(3, 3))})


@pytest.mark.parametrize(
    "settings",
    [{"shapes": {"": (Dimension(1, 1),)}}, {"layouts": {"": ("C", "C")}}, {"mean": 1.0}],
)
def test_a_model_with_several_inputs_needs_names(tmp_path: Path, settings: Any) -> None:
    save(add_model(), tmp_path / "m.xml")
    with pytest.raises(GraphError, match=r"the model has 2 inputs, so it needs .*: A, B"):
        load(tmp_path / "m.xml", **settings)
    assert load(tmp_path / "m.xml", shapes={"": None}).inputs[0].shape_text == "[?]"


# Names, files, running ----------------------------------------------------------------------------


def test_a_mapping_file_gives_tensors_other_names(image: Path) -> None:
    mapping = {"inputs": {"IMAGE": "picture"}, "outputs": {"OUT": "doubled", "NONE": "x"}}
    (image.parent / "mapping_config.json").write_text(json.dumps(mapping))
    model = load(image, layouts={"picture": ("NHWC", "NCHW")})
    assert [spec.names for spec in (*model.inputs, *model.outputs)] == [{"picture"}, {"doubled"}]
    assert run(model, picture=pixels("f4", 1, 4, 5, 3)).shape == (1, 3, 4, 5)


@pytest.mark.parametrize("text", ["", "[1]", '{"inputs": 7}', '{"inputs": [1]}'])
def test_a_mapping_file_of_another_form_is_refused(image: Path, text: str) -> None:
    (image.parent / "mapping_config.json").write_text(text)
    with pytest.raises(GraphError, match=r"mapping_config\.json needs"):
        load(image)


def test_infer_requests_and_properties_reach_openvino(image: Path) -> None:
    assert load(image, nireq=5).nireq == 5
    properties = {"NUM_STREAMS": "2", "INFERENCE_NUM_THREADS": 2, "PERFORMANCE_HINT": "THROUGHPUT"}
    assert load(image, plugin_config=properties).nireq == 2


def test_compiled_models_are_cached_in_the_servers_directory(image: Path, tmp_path: Path) -> None:
    load(image)
    assert not (tmp_path / "cache").exists()
    load(image, cache_dir=str(tmp_path / "cache"))
    (blob,) = (tmp_path / "cache").rglob("*.blob")
    written = blob.stat().st_ino, blob.stat().st_mtime_ns
    model = load(image, cache_dir=str(tmp_path / "cache"))
    assert (blob.stat().st_ino, blob.stat().st_mtime_ns) == written
    picture = pixels(np.float32, 1, 3, 4, 5)
    assert run(model, IMAGE=picture).tolist() == (picture * 2).tolist()


def test_other_settings_and_other_content_have_entries_of_their_own(
    image: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    load(image, cache_dir=str(cache))
    load(image, cache_dir=str(cache), nireq=3)
    assert len(list(cache.rglob("*.blob"))) == 1
    load(image, cache_dir=str(cache), plugin_config={"NUM_STREAMS": "2"})
    assert len(list(cache.rglob("*.blob"))) == 2
    image.touch()
    load(image, cache_dir=str(cache))
    assert len(list(cache.rglob("*.blob"))) == 3


def test_the_description_of_a_model_comes_from_its_file(tmp_path: Path) -> None:
    model = add_model()
    model.set_rt_info("cat dog", ["model_info", "labels"])
    model.set_rt_info("0.5", ["model_info", "post", "threshold"])
    model.set_rt_info("/home/somebody", ["conversion", "input"])
    save(model, tmp_path / "m.xml")
    assert load(tmp_path / "m.xml").rt_info == {
        "model_info": {"labels": "cat dog", "post": {"threshold": "0.5"}}
    }


def test_an_onnx_file_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(onnx_relu())
    model = load(tmp_path / "m.onnx")
    assert run(model, x=np.array([-1, 2], np.float32)).tolist() == [0, 2]


def onnx_relu() -> bytes:
    """Return ``y`` = Relu(``x``), two numbers of float32: a ModelProto, written by hand."""

    def part(number: int, value: bytes | int) -> bytes:
        if isinstance(value, int):
            return bytes([number << 3, value])
        return bytes([number << 3 | 2, len(value)]) + value

    def tensor(name: bytes) -> bytes:
        shape = part(1, part(1, 2))
        return part(1, name) + part(2, part(1, part(1, 1) + part(2, shape)))

    node = part(1, b"x") + part(2, b"y") + part(4, b"Relu")
    graph = part(1, node) + part(2, b"g") + part(11, tensor(b"x")) + part(12, tensor(b"y"))
    return part(1, 7) + part(7, graph) + part(8, part(2, 13))
