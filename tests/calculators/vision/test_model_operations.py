"""Operations of models that are made of others: they compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import openvino
import pytest
from openvino import opset13 as op

from calculators.vision.inference.attention_operations import (
    LandmarksToMatrix,
    SampleBilinear,
    replace_attention,
)
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
    return all_of(network, *inputs)[0]


def all_of(network: Any, *inputs: Array) -> list[Array]:
    compiled = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.array(found) for found in compiled(list(inputs)).values()]


#: Strides, paddings and dilations of a convolution that is nothing but a product per pixel.
ONE = ([1, 1], [0, 0], [0, 0], [1, 1])


def random(*shape: int) -> Any:
    return op.constant(RANDOM.standard_normal(shape).astype(np.float32))


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
    return set(kinds(network))


def kinds(network: Any) -> list[str]:
    return [each.get_type_name() for each in network.get_ordered_ops()]


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
    network = openvino.Model([found], [source, moved], "sampling")
    replace_attention(network)
    return run(network, image, matrix[np.newaxis])


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


@pytest.mark.parametrize("window", [(3, 3), (1, 2), (1, 1)])
def test_a_convolution_over_the_whole_map_is_a_product(window: tuple[int, int]) -> None:
    source = op.parameter([1, 5, *window], np.float32)
    found = op.add(op.convolution(source, random(7, 5, *window), *ONE), random(1, 7, 1, 1))
    network = openvino.Model([found], [source], "whole")
    image = RANDOM.standard_normal((1, 5, *window)).astype(np.float32)
    expected = run(network, image)
    use_fast_operations(network)
    assert "Convolution" not in names(network)
    assert run(network, image).shape == (1, 7, 1, 1)
    np.testing.assert_allclose(run(network, image), expected, atol=1e-5)


def residual(bend: Any, *, window: int = 1) -> Any:
    source = op.parameter([1, 8, 5, 6], np.float32)
    moved = op.convolution(source, random(8, 8, window, window), *ONE, "same_upper")
    found = bend(op.add(op.add(moved, random(1, 8, 1, 1)), source))
    return openvino.Model([found], [source], "residual")


def test_a_residual_block_with_prelu_is_computed_from_a_product() -> None:
    network = residual(lambda sum_: op.prelu(sum_, random(1, 8, 1, 1)))
    image = RANDOM.standard_normal((1, 8, 5, 6)).astype(np.float32)
    expected = run(network, image)
    use_fast_operations(network)
    assert "Convolution" not in names(network)
    np.testing.assert_allclose(run(network, image), expected, atol=1e-5)


def test_other_residual_blocks_stay() -> None:
    for network in (
        residual(op.relu),
        residual(lambda sum_: op.prelu(sum_, random(1, 8, 1, 1)), window=3),
    ):
        use_fast_operations(network)
        assert "Convolution" in names(network)


@pytest.mark.parametrize(("stride", "sides"), [(1, [1, 7, 3, 3]), (4, [1, 7, 1, 1])])
def test_a_convolution_with_padding_stays(stride: int, sides: list[int]) -> None:
    source = op.parameter([1, 5, 3, 3], np.float32)
    steps = [stride, stride]
    moved = op.convolution(source, random(7, 5, 3, 3), steps, [1, 1], [1, 1], [1, 1])
    found = op.add(moved, random(1, 7, 1, 1))
    assert list(found.get_output_shape(0)) == sides
    network = openvino.Model([found], [source], "padded")
    use_fast_operations(network)
    assert "Convolution" in names(network)


def around(
    landmarks: Any, subset: list[int], *, scale: float = 1.5, turn: float = 0.0
) -> LandmarksToMatrix:
    sizes = {"output_width": 4, "output_height": 6, "scale_x": scale, "scale_y": scale}
    ends = {"left_rotation_idx": subset[0], "right_rotation_idx": subset[-1]}
    options = sizes | ends | {"target_rotation_radians": turn, "subset_idxs": subset}
    return LandmarksToMatrix(landmarks.output(0), options)


def block(source: Any, channels: int, made: int) -> Any:
    """A residual block: by channel, to more channels, and the source with zeros beside it."""
    apart = op.group_convolution(
        source, random(channels, 1, 1, 3, 3), [2, 2], [0, 0], [1, 1], [1, 1], "same_upper"
    )
    moved = op.add(
        op.convolution(
            op.add(apart, random(1, channels, 1, 1)), random(made, channels, 1, 1), *ONE
        ),
        random(1, made, 1, 1),
    )
    pool = op.max_pool(source, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2])
    kept = op.pad(
        pool.output(0), whole(0, 0, 0, 0), whole(0, made - channels, 0, 0), "constant", zero()
    )
    return op.prelu(op.add(kept, moved), random(1, made, 1, 1))


def zero() -> Any:
    return op.constant(np.float32(0))


def attention(*subsets: list[int], forks: bool = False, cascades: bool = False) -> Any:
    """A network that looks at the regions around some landmarks, as MediaPipe's faces have it."""
    source = op.parameter([1, 12, 16, 3], np.float32)
    landmarks = op.parameter([1, 5, 3], np.float32)
    found: list[Any] = []
    for number, subset in enumerate(subsets):
        # Equal, but not the same value.
        scaled = op.multiply(landmarks, op.constant(np.full(1, 1.5, np.float32)))
        if cascades and found:
            # The place of a region depends on what is in the last one.
            sum_ = op.reduce_mean(found[-1], whole(0, 1, 2, 3), True)
            scaled = op.add(scaled, op.reshape(sum_, whole(1, 1, 1), False))
        matrix = around(scaled, subset, turn=0.3 * number)
        sample = SampleBilinear(source.output(0), matrix.output(0), 6, 4)
        image = op.transpose(sample.output(0), whole(0, 3, 1, 2))
        again = op.transpose(sample.output(0), whole(0, 3, 1, 2))
        first = op.prelu(
            op.add(op.convolution(image, random(3, 3, 1, 1), *ONE), again), random(1, 3, 1, 1)
        )
        middle = block(first, 3, 5)
        ends = [block(middle, 5, 8) for _ in range(1 + (forks and number > 0))]
        # As many numbers as the region has landmarks.
        found += [op.convolution(end, random(2 * len(subset), 8, 2, 1), *ONE) for end in ends]
    return openvino.Model(found, [source, landmarks], "attention")


LANDMARKS = np.array([[[2, 2, 0], [8, 3, 0], [5, 7, 0], [7, 5, 1], [1, 6, 2]]], np.float32)


def alone(network: Any) -> Any:
    """The same network, each of its branches for itself."""
    for op_ in network.get_ordered_ops():
        if isinstance(op_, SampleBilinear):
            only = openvino.Model([op_.output(0)], network.get_parameters(), "one")
            replace_attention(only)
            op_.output(0).replace(only.get_results()[0].input_value(0))
    return network


@pytest.mark.parametrize("forks", [False, True])
def test_branches_of_attention_are_computed_as_one(forks: bool) -> None:
    seed = RANDOM.bit_generator.state
    joined = attention([0, 1], [1, 2, 3], [0, 4], forks=forks)
    RANDOM.bit_generator.state = seed
    image = RANDOM.standard_normal((1, 12, 16, 3)).astype(np.float32)
    RANDOM.bit_generator.state = seed
    expected = all_of(alone(attention([0, 1], [1, 2, 3], [0, 4], forks=forks)), image, LANDMARKS)
    replace_attention(joined)
    found = all_of(joined, image, LANDMARKS)
    assert len(found) == len(expected) == (5 if forks else 3)
    for one, other in zip(found, expected, strict=True):
        assert other.any()
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    # The three samples are one, and so is all behind them but the ends of different sizes.
    counts = kinds(joined)
    assert counts.count("ReduceSum") == 1
    assert counts.count("PRelu") == 3
    assert counts.count("Convolution") == len(found)
    assert "SampleBilinear" not in counts
    assert "LandmarksToMatrix" not in counts


def test_regions_that_depend_on_one_another_are_not_joined() -> None:
    image = RANDOM.standard_normal((1, 12, 16, 3)).astype(np.float32)
    seed = RANDOM.bit_generator.state
    network = attention([0, 1], [1, 2, 3], cascades=True)
    RANDOM.bit_generator.state = seed
    expected = all_of(alone(attention([0, 1], [1, 2, 3], cascades=True)), image, LANDMARKS)
    replace_attention(network)
    assert kinds(network).count("ReduceSum") == 2
    for one, other in zip(all_of(network, image, LANDMARKS), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
