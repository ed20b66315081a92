"""From images to tensors: OpenVINOConverterCalculator and ImageToTensorCalculator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from graph_runtime import GraphError
from protos.pool import message_class
from tests.calculators.images.image.runs import image, node, run

CONVERTER, TO_TENSOR = "OpenVINOConverterCalculator", "ImageToTensorCalculator"
UNIT = "output_tensor_float_range { min: -1 max: 1 }"


def tensor(name: str, options: str, frame: Any, rect: Any = None) -> Any:
    streams = ['input_stream: "IMAGE:in"', 'output_stream: "TENSORS:out"']
    feeds = {"in": frame}
    if rect is not None:
        streams.append('input_stream: "NORM_RECT:rect"')
        feeds["rect"] = rect
    found = run(node(name, options, *streams), feeds)["out"]
    return found[0][0] if found else None


def normalized_rect(x: float, y: float, width: float, height: float) -> Any:
    kind: Any = message_class("mediapipe.NormalizedRect")
    return kind(x_center=x, y_center=y, width=width, height=height)


@pytest.mark.parametrize(
    "image_format", [ImageFormat.SRGB, ImageFormat.GRAY16, ImageFormat.VEC32F2]
)
def test_without_normalization_the_tensor_is_the_image(image_format: ImageFormat) -> None:
    frame = image(4, 3, image_format)
    found = tensor(CONVERTER, "", frame)
    assert (found.dtype, found.shape) == (image_format.dtype, (1, 3, 4, image_format.channels))
    assert np.array_equal(found[0], frame.pixels)


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ("", -1, 1),
        ("zero_center: true", -1, 1),
        ("output_tensor_float_range { min: 0 max: 1 }", 0, 1),
        ("use_custom_normalization: true custom_div: 127.5 custom_sub: 1", -1, 1),
        ("use_custom_normalization: true custom_div: 1 custom_sub: 0", 0, 255),
    ],
)
def test_normalization_maps_the_range(options: str, low: float, high: float) -> None:
    pixels = np.array([[[0, 255, 51]]], np.uint8)
    found = tensor(
        CONVERTER, f"enable_normalization: true {options}", ImageFrame(ImageFormat.SRGB, pixels)
    )
    assert found.dtype == np.float32
    expected = [low, high, low + (high - low) / 5]
    assert found.ravel().tolist() == pytest.approx(expected, abs=1e-5)


def test_options_count_only_with_a_range() -> None:
    frame = image(4, 3)
    options = "enable_normalization: true zero_center: false flip_vertically: true"
    assert np.array_equal(tensor(CONVERTER, options, frame)[0], frame.pixels)


def test_channels_and_rows_are_chosen() -> None:
    frame = image(4, 3, ImageFormat.SRGBA)
    options = "enable_normalization: true output_tensor_float_range { min: 0 max: 255 }"
    found = tensor(CONVERTER, f"{options} flip_vertically: true", frame)
    assert np.array_equal(found[0], frame.pixels[::-1, :, :3])
    found = tensor(CONVERTER, f"{options} max_num_channels: 4", frame)
    assert np.array_equal(found[0], frame.pixels)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("max_num_channels: 2", "max_num_channels is 1, 3 or 4, not 2"),
        ("output_tensor_float_range { min: 1 max: 1 }", "must be greater than min"),
        ("use_custom_normalization: true custom_div: 0", "it cannot be 0"),
    ],
)
def test_impossible_options_of_the_converter_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        tensor(CONVERTER, options, image(2, 2))


def test_sixteen_bits_cannot_be_normalized() -> None:
    with pytest.raises(GraphError, match="GRAY16 cannot be normalized"):
        tensor(CONVERTER, "enable_normalization: true", image(2, 2, ImageFormat.GRAY16))


@pytest.mark.parametrize(
    ("options", "dtype", "expected"),
    [
        ("output_tensor_uint_range { min: 0 max: 255 }", np.uint8, [0, 255, 51]),
        ("output_tensor_int_range { min: -128 max: 127 }", np.int8, [-128, 127, -77]),
        ("output_tensor_int_range { min: 0 max: 100 }", np.uint8, [0, 100, 20]),
        (UNIT, np.float32, [-1, 1, -0.6]),
    ],
)
def test_the_type_follows_from_the_range(options: str, dtype: Any, expected: list[float]) -> None:
    pixels = np.array([[[0, 255, 51]]], np.uint8)
    found = tensor(TO_TENSOR, options, ImageFrame(ImageFormat.SRGB, pixels))
    assert (found.dtype, found.shape) == (dtype, (1, 1, 1, 3))
    assert found.ravel().tolist() == pytest.approx(expected, abs=1e-5)


def test_the_tensor_comes_with_its_place_in_the_image() -> None:
    text = node(
        TO_TENSOR,
        f"{UNIT} output_tensor_width: 8 output_tensor_height: 8 keep_aspect_ratio: true",
        'input_stream: "IMAGE:in"',
        'input_stream: "NORM_RECT:rect"',
        'output_stream: "TENSOR:out"',
        'output_stream: "MATRIX:matrix"',
        'output_stream: "LETTERBOX_PADDING:padding"',
    )
    rect = normalized_rect(0.5, 0.5, 1, 1)
    found = run(text, {"in": image(8, 4), "rect": rect}, "out matrix padding")
    assert found["out"][0].shape == (1, 8, 8, 3)
    assert found["padding"] == [pytest.approx((0, 0.25, 0, 0.25))]
    # x stays; y from 0 to 1 goes from half an image above to half an image below.
    assert found["matrix"][0][:8] == pytest.approx((1, 0, 0, 0, 0, 2, 0, -0.5))


def test_a_region_is_cut_out() -> None:
    frame = image(8, 8)
    rect = normalized_rect(0.25, 0.75, 0.5, 0.5)
    options = (
        "output_tensor_uint_range { min: 0 max: 255 } output_tensor_width: 4 "
        "output_tensor_height: 4"
    )
    assert np.array_equal(tensor(TO_TENSOR, options, frame, rect)[0], frame.pixels[4:, :4])


def test_a_region_of_no_size_drops_the_image() -> None:
    assert tensor(TO_TENSOR, UNIT, image(8, 8), normalized_rect(0, 0, 0, 0)) is None


@pytest.mark.parametrize("extent", [-1, float("nan")])
def test_an_invalid_region_is_refused(extent: float) -> None:
    with pytest.raises(GraphError, match="NORM_RECT needs a width and height above 0"):
        tensor(TO_TENSOR, UNIT, image(8, 8), normalized_rect(0.5, 0.5, extent, 1))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "one of output_tensor_float_range, .* is required"),
        ("output_tensor_float_range { min: 1 max: 1 }", "must be less than max"),
        ("output_tensor_uint_range { min: 0 max: 256 }", "the range is within 0 and 255"),
        ("output_tensor_int_range { min: -129 max: 0 }", "the range is within -128 and 127"),
        (f"{UNIT} output_tensor_width: 0", "output_tensor_width is a number of pixels above 0"),
        (
            f"{UNIT} output_tensor_width: 100000 output_tensor_height: 100000",
            "can have at most 100000000 pixels",
        ),
    ],
)
def test_impossible_options_of_the_tensor_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        tensor(TO_TENSOR, options, image(2, 2))


def test_formats_that_cannot_become_a_tensor_are_refused() -> None:
    with pytest.raises(
        GraphError, match="GRAY16 cannot become a tensor here; the formats are SRGB"
    ):
        tensor(TO_TENSOR, UNIT, image(2, 2, ImageFormat.GRAY16))


def test_a_node_needs_exactly_one_output_for_tensors() -> None:
    text = node(TO_TENSOR, UNIT, 'input_stream: "IMAGE:in"', 'output_stream: "MATRIX:out"')
    with pytest.raises(GraphError, match="exactly one of the output streams TENSORS and TENSOR"):
        run(text, {"in": image(2, 2)})
