"""The operations by which a model of attention cuts small maps out of a large one.

Such a model finds landmarks, looks at the regions around some of them more closely, and finds these
landmarks better. `LandmarksToMatrix` makes the matrix from a small map to the large one, and
`SampleBilinear` samples the map. Both stand in a network only until `replace_attention` has made
OpenVINO's operations of them: for all regions together, and what follows them as well.

Source: MediaPipe ``util/tflite/operations``, as formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as ov

from calculators.vision.inference.constant_values import constant_value, floats, ints
from calculators.vision.inference.joined_branches import form_of, join_branches, key_of

#: The options of one `LandmarksToMatrix`.
Options = Mapping[str, Any]

#: Operations between two values up to which they are compared.
_DEPTH = 4


class LandmarksToMatrix(openvino.Op):  # type: ignore[misc]
    """A matrix (1, 4, 4) of landmarks (1, n, 3).

    It maps pixels of a small map to those of the large one: it turns by the angle between two
    landmarks, and scales to the box around a subset of all.
    """

    def __init__(self, landmarks: Any, options: Options) -> None:
        super().__init__(self)
        self.options = options
        self.set_arguments([landmarks])
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        self.set_output_type(0, openvino.Type.f32, openvino.PartialShape([1, 4, 4]))


class SampleBilinear(openvino.Op):  # type: ignore[misc]
    """A map (1, height, width, c) of the points of a map (1, h, w, c) under a matrix (1, 4, 4).

    A point outside the centres of the map's border pixels is 0.
    """

    def __init__(self, source: Any, matrix: Any, height: int, width: int) -> None:
        super().__init__(self)
        self.size = (height, width)
        self.set_arguments([source, matrix])
        self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        channels = self.get_input_partial_shape(0)[3]
        shape = openvino.PartialShape([1, *self.size, channels])
        self.set_output_type(0, openvino.Type.f32, shape)


def replace_attention(network: Any) -> None:
    """Make OpenVINO's operations of `LandmarksToMatrix` and `SampleBilinear`, in place."""
    for samples in _of_one_map(network):
        _replace_samples(network, samples)
    for op in network.get_ordered_ops():
        if isinstance(op, LandmarksToMatrix):
            op.output(0).replace(_matrices(op.input_value(0), [op.options]))


def _of_one_map(network: Any) -> list[list[SampleBilinear]]:
    """The samples, those together that can be taken at once."""
    found: list[list[SampleBilinear]] = []
    for op in network.get_ordered_ops():
        if isinstance(op, SampleBilinear):
            alike = [each for each in found if _are_of_one_map(each[0], op)]
            if alike:
                alike[0].append(op)
            else:
                found.append([op])
    return found


def _are_of_one_map(a: SampleBilinear, b: SampleBilinear) -> bool:
    makers = [op.input_value(1).get_node() for op in (a, b)]
    return (
        a.size == b.size
        and _are_same(a.input_value(0), b.input_value(0))
        and all(isinstance(maker, LandmarksToMatrix) for maker in makers)
        # So none of them depends on what another finds.
        and _are_same(makers[0].input_value(0), makers[1].input_value(0))
    )


def _are_same(a: Any, b: Any, depth: int = _DEPTH) -> bool:
    """True if two values are surely equal."""
    if key_of(a) == key_of(b):
        return True
    constants = constant_value(a), constant_value(b)
    if constants[0] is not None and constants[1] is not None:
        return np.array_equal(constants[0], constants[1])
    ops = a.get_node(), b.get_node()
    return (
        depth > 0
        and not any(isinstance(op, LandmarksToMatrix | SampleBilinear) for op in ops)
        and a.get_index() == b.get_index()
        and form_of(ops[0]) == form_of(ops[1])
        and ops[0].get_input_size() > 0
        and all(
            _are_same(one, other, depth - 1)
            for one, other in zip(ops[0].input_values(), ops[1].input_values(), strict=True)
        )
    )


def _replace_samples(network: Any, samples: Sequence[SampleBilinear]) -> None:
    source, matrix = samples[0].input_values()
    height, width = samples[0].size
    if len(samples) == 1:
        samples[0].output(0).replace(_sampled(source, matrix, 1, height, width))
        return
    makers = [op.input_value(1).get_node() for op in samples]
    matrices = _matrices(makers[0].input_value(0), [maker.options for maker in makers])
    joined = _sampled(source, matrices, len(samples), height, width)
    each = ov.split(matrices, ints(0), len(samples))
    for place, maker in enumerate(makers):
        maker.output(0).replace(each.output(place))
    join_branches(network, joined, 3, [op.output(0) for op in samples])


def _whole(value: int) -> Any:
    return ov.constant(np.asarray(value, np.int32))


def _matrices(landmarks: Any, options: Sequence[Options]) -> Any:
    """The matrices (k, 4, 4) of k `LandmarksToMatrix` of the same landmarks."""

    def of_each(value: Callable[[Options], float]) -> Any:
        return floats([[value(each)] for each in options])

    points = ov.squeeze(landmarks, ints([0]))
    ends = [
        ov.gather(points, ints([each[name] for each in options]), ints(0))
        for name in ("right_rotation_idx", "left_rotation_idx")
    ]
    across = ov.subtract(*ends)
    dx, dy = (ov.gather(across, ints([place]), ints(1)) for place in (0, 1))
    # Sine and cosine of target - atan2(dy, dx), without the angle itself.
    length = ov.sqrt(ov.add(ov.multiply(dx, dx), ov.multiply(dy, dy)))
    own_cos, own_sin = ov.divide(dx, length), ov.divide(dy, length)
    target_cos = of_each(lambda each: math.cos(each["target_rotation_radians"]))
    target_sin = of_each(lambda each: math.sin(each["target_rotation_radians"]))
    cos = ov.add(ov.multiply(target_cos, own_cos), ov.multiply(target_sin, own_sin))
    sin = ov.subtract(ov.multiply(target_sin, own_cos), ov.multiply(target_cos, own_sin))

    # A shorter subset has its first landmark several times, which does not change its box.
    subsets = [list(each["subset_idxs"]) for each in options]
    most = max(map(len, subsets))
    filled = [subset + subset[:1] * (most - len(subset)) for subset in subsets]
    chosen = ov.gather(points, ints(filled), ints(0))
    x, y = (ov.gather(chosen, ints(place), ints(2)) for place in (0, 1))
    turned = (
        ov.subtract(ov.multiply(cos, x), ov.multiply(sin, y)),
        ov.add(ov.multiply(sin, x), ov.multiply(cos, y)),
    )
    low = [ov.reduce_min(each, ints([1]), keep_dims=True) for each in turned]
    high = [ov.reduce_max(each, ints([1]), keep_dims=True) for each in turned]
    width, height = (ov.subtract(b, a) for a, b in zip(low, high, strict=True))
    u, v = (ov.multiply(ov.add(a, b), floats(0.5)) for a, b in zip(low, high, strict=True))
    center_x = ov.add(ov.multiply(cos, u), ov.multiply(sin, v))
    center_y = ov.subtract(ov.multiply(cos, v), ov.multiply(sin, u))

    scale_x = ov.multiply(width, of_each(lambda each: each["scale_x"] / each["output_width"]))
    scale_y = ov.multiply(height, of_each(lambda each: each["scale_y"] / each["output_height"]))
    m00, m01 = ov.multiply(cos, scale_x), ov.multiply(sin, scale_y)
    m10, m11 = ov.negative(ov.multiply(sin, scale_x)), ov.multiply(cos, scale_y)
    half_x = of_each(lambda each: each["output_width"] / 2)
    half_y = of_each(lambda each: each["output_height"] / 2)
    m03 = ov.subtract(center_x, ov.add(ov.multiply(m00, half_x), ov.multiply(m01, half_y)))
    m13 = ov.subtract(center_y, ov.add(ov.multiply(m10, half_x), ov.multiply(m11, half_y)))
    count = len(options)
    zero = floats(np.zeros((count, 1)))
    rest = floats(np.tile(np.eye(4)[2:].reshape(1, 8), (count, 1)))
    found = ov.concat([m00, m01, zero, m03, m10, m11, zero, m13, rest], 1)
    return ov.reshape(found, ints([count, 4, 4]), False).output(0)


def _sampled(source: Any, matrices: Any, maps: int, height: int, width: int) -> Any:
    """A map (1, h, w, c) under matrices (k, 4, 4), side by side: (1, height, width, k c).

    The four pixels around a point are gathered as rows of c numbers: OpenVINO's own sampler wants
    each channel for itself, so the whole map would be transposed before it, and each sample after
    it.
    """
    count, all_points = height * width, height * width * maps
    shape = source.get_partial_shape()
    rows, columns, channels = (shape[axis].get_length() for axis in (1, 2, 3))
    last = np.array([columns - 1, rows - 1]).reshape(1, 2, 1, 1)
    y, x = np.mgrid[0:height, 0:width].reshape(2, -1) + 0.5
    centers = np.stack([x, y, np.zeros_like(x), np.ones_like(x)], axis=1)
    # x and y of each point under each matrix, (points, 2, k, 1); and of the pixels beside it.
    by_axis = ov.transpose(ov.gather(matrices, ints([0, 1]), ints(1)), ints([1, 0, 2]))
    flat = ov.reshape(by_axis, ints([2 * maps, 4]), False)
    found = ov.matmul(floats(centers), flat, False, True)
    moved = ov.subtract(ov.reshape(found, ints([count, 2, maps, 1]), False), floats(0.5))
    beside = ov.add(ov.floor(moved), floats([0, 1]))
    inside = ov.logical_and(ov.greater_equal(moved, floats(0)), ov.less_equal(moved, floats(last)))
    shares = ov.subtract(floats(1), ov.abs(ov.subtract(moved, beside)))
    shares = ov.multiply(shares, ov.convert(inside, "f32"))

    def by_point(pairs: Any, axis: int, dims: list[int]) -> Any:
        return ov.reshape(ov.gather(pairs, ints([axis]), ints(1)), ints(dims), False)

    in_rows, in_columns = [all_points, 2, 1], [all_points, 1, 2]
    place = ov.add(
        ov.multiply(by_point(beside, 1, in_rows), floats(columns)),
        by_point(beside, 0, in_columns),
    )
    # As whole numbers, since what is not a number has no place; a pixel outside has no share.
    place = ov.minimum(ov.maximum(ov.convert(place, "i32"), _whole(0)), _whole(rows * columns - 1))
    share = ov.multiply(by_point(shares, 1, in_rows), by_point(shares, 0, in_columns))
    # The pool of one pixel changes nothing. Without it OpenVINO would keep the whole map, for all
    # its readers, in the order that only this one needs.
    pool = ov.max_pool(
        ov.transpose(source, ints([0, 3, 1, 2])), [1, 1], [1, 1], [0, 0], [0, 0], [1, 1]
    )
    pixels = ov.gather(
        ov.reshape(
            ov.transpose(pool.output(0), ints([0, 2, 3, 1])),
            ints([rows * columns, channels]),
            False,
        ),
        ov.reshape(place, ints([all_points, 4]), False),
        ints(0),
    )
    weighed = ov.multiply(pixels, ov.reshape(share, ints([all_points, 4, 1]), False))
    summed = ov.reduce_sum(weighed, ints([1]), False)
    return ov.reshape(summed, ints([1, height, width, maps * channels]), False).output(0)
