"""Operations of models that are made of others: they compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import openvino
import pytest
from openvino import opset13 as op

from calculators.vision.inference.custom_operations import sample_bilinear
from calculators.vision.inference.fast_operations import use_fast_operations

Array = npt.NDArray[Any]

RANDOM = np.random.default_rng(5)


class FrontendNode:
    """The inputs of a custom operation, as a conversion reads them."""

    def __init__(self, *inputs: Any) -> None:
        self.inputs = inputs

    def get_input(self, place: int) -> Any:
        return self.inputs[place].output(0)


def run(network: Any, *inputs: Array) -> Array:
    compiled = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(list(inputs))[0])


def whole(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def enlarging(shape: tuple[int, ...], sides: tuple[int, int]) -> Any:
    source = op.parameter(list(shape), np.float32)
    found = op.interpolate(
        source,
        whole(*sides),
        "linear_onnx",
        "sizes",
        coordinate_transformation_mode="half_pixel",
        axes=whole(1, 2),
    )
    return openvino.Model([found], [source], "enlarging")


def names(network: Any) -> set[str]:
    return {each.get_type_name() for each in network.get_ordered_ops()}


@pytest.mark.parametrize("shape", [(1, 6, 5, 8), (1, 1, 4, 3), (1, 3, 1, 16), (1, 1, 1, 1)])
def test_a_map_of_few_channels_is_doubled_without_interpolation(shape: tuple[int, ...]) -> None:
    network = enlarging(shape, (2 * shape[1], 2 * shape[2]))
    image = RANDOM.standard_normal(shape).astype(np.float32)
    expected = run(network, image)
    use_fast_operations(network)
    assert "Interpolate" not in names(network)
    np.testing.assert_allclose(run(network, image), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "sides"), [((1, 4, 4, 17), (8, 8)), ((1, 4, 4, 8), (8, 12)), ((2, 4, 4, 8), (8, 8))]
)
def test_other_interpolations_stay(shape: tuple[int, ...], sides: tuple[int, int]) -> None:
    network = enlarging(shape, sides)
    use_fast_operations(network)
    assert "Interpolate" in names(network)


def test_a_convolution_to_one_channel_is_computed_by_channel() -> None:
    source = op.parameter([1, 8, 5, 7], np.float32)
    weights = op.constant(RANDOM.standard_normal((1, 8, 3, 3)).astype(np.float32))
    found = op.convolution(source, weights, [1, 1], [1, 1], [1, 1], [1, 1])
    network = openvino.Model([found], [source], "to_one")
    image = RANDOM.standard_normal((1, 8, 5, 7)).astype(np.float32)
    expected = run(network, image)
    use_fast_operations(network)
    assert "GroupConvolution" in names(network)
    np.testing.assert_allclose(run(network, image), expected, atol=1e-5)


def sampling_options(height: int, width: int) -> bytes:
    """The FlexBuffer of output_height and output_width, byte by byte."""
    names = b"output_height\0output_width\0"
    keys = bytes([2, len(names) + 1, len(names) + 2 - 14])
    integer, mapping = 1 << 2, 9 << 2
    values = bytes([2, 1, 2, height, width, integer, integer])
    return names + keys + values + bytes([4, mapping, 1])


def sampled(image: Array, matrix: Array, height: int, width: int) -> Array:
    source = op.parameter(list(image.shape), np.float32)
    moved = op.parameter([1, 4, 4], np.float32)
    options = sampling_options(height, width)
    (found,) = sample_bilinear(FrontendNode(source, moved), options)
    return run(openvino.Model([found], [source, moved], "sampling"), image, matrix[np.newaxis])


def expected_sample(image: Array, matrix: Array, height: int, width: int) -> Array:
    """Each pixel for itself, by the formula."""
    _, rows, columns, channels = image.shape
    found = np.zeros((1, height, width, channels))
    for y in range(height):
        for x in range(width):
            at = matrix[:2] @ np.array([x + 0.5, y + 0.5, 0, 1]) - 0.5
            if (at < 0).any() or at[0] > columns - 1 or at[1] > rows - 1:
                continue
            left, top = np.floor(at).astype(int)
            for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
                share = (1 - abs(at[0] - column)) * (1 - abs(at[1] - row))
                if share > 0:
                    found[0, y, x] += share * image[0, row, column]
    return found


def test_a_map_is_sampled_through_a_matrix_and_is_zero_outside() -> None:
    image = RANDOM.standard_normal((1, 6, 9, 4)).astype(np.float32)
    turned = np.eye(4, dtype=np.float32)
    turned[:2] = [[1.3, -0.6, 0, 1], [0.5, 0.9, 0, -0.7]]
    for matrix in (turned, np.eye(4, dtype=np.float32)):
        found = sampled(image, matrix, 5, 7)
        expected = expected_sample(image, matrix, 5, 7)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert expected.any()


def test_a_matrix_without_numbers_reads_no_pixel_outside_the_map() -> None:
    image = np.ones((1, 4, 4, 2), np.float32)
    for value in (np.nan, np.inf, -1e30):
        found = sampled(image, np.full((4, 4), value, np.float32), 3, 3)
        assert not np.isfinite(found).any() or not found.any()
