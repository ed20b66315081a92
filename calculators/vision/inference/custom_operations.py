"""MediaPipe's own TFLite operations, made of OpenVINO's.

A model of attention cuts a small map out of a large one around landmarks that it has just found:
`Landmarks2TransformMatrix` makes the matrix from the small map to the large one,
`TransformTensorBilinear` samples the map, `TransformLandmarks` moves landmarks back.
`Convolution2DTransposeBias` is a transposed convolution with a bias.

Source: MediaPipe ``util/tflite/operations`` and ``util/tflite/tflite_gpu_runner``'s landmarks
operations, as formulas.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calculators.vision.inference.flexbuffer import read_flexbuffer

#: Makes the outputs of one operation; gets the frontend's node and the operation's options.
Conversion = Callable[[Any, bytes], list[Any]]

_SAME_PADDING: Final = 1


def _ops() -> Any:
    from openvino import opset13  # here: processes without such a model do not load it

    return opset13


def _floats(value: Any) -> Any:
    return _ops().constant(np.asarray(value, np.float32))


def _ints(value: Any) -> Any:
    return _ops().constant(np.asarray(value, np.int64))


def _whole(value: int) -> Any:
    return _ops().constant(np.asarray(value, np.int32))


def transposed_convolution(node: Any, options: bytes) -> list[Any]:
    """Convert ``Convolution2DTransposeBias``: x (NHWC), weights (OHWI) and bias."""
    op = _ops()
    padding, stride_width, stride_height = struct.unpack_from("<3i", options)
    x, weights, bias = (node.get_input(place) for place in range(3))
    found = op.convolution_backprop_data(
        op.transpose(x, _ints([0, 3, 1, 2])),
        op.transpose(weights, _ints([3, 0, 1, 2])),
        strides=[stride_height, stride_width],
        auto_pad="same_upper" if padding == _SAME_PADDING else "valid",
    )
    return [op.add(op.transpose(found, _ints([0, 2, 3, 1])), bias).output(0)]


def landmarks_to_matrix(node: Any, options: bytes) -> list[Any]:
    """Convert ``Landmarks2TransformMatrix``: landmarks (1, n, 3) to a matrix (1, 4, 4).

    The matrix maps pixels of the output to those of the input: it turns by the angle between two
    landmarks, and scales to the box around a subset of all.
    """
    op = _ops()
    values = read_flexbuffer(options)
    landmarks = op.squeeze(node.get_input(0), _ints([0]))

    def column(points: Any, place: int) -> Any:
        return op.gather(points, _ints([place]), _ints(1))

    def rows(places: list[int]) -> Any:
        return op.gather(landmarks, _ints(places), _ints(0))

    across = op.subtract(rows([values["right_rotation_idx"]]), rows([values["left_rotation_idx"]]))
    dx, dy = column(across, 0), column(across, 1)
    # Sine and cosine of target - atan2(dy, dx), without the angle itself.
    length = op.sqrt(op.add(op.multiply(dx, dx), op.multiply(dy, dy)))
    own_cos, own_sin = op.divide(dx, length), op.divide(dy, length)
    target = values["target_rotation_radians"]
    cos_t, sin_t = _floats(math.cos(target)), _floats(math.sin(target))
    cos = op.add(op.multiply(cos_t, own_cos), op.multiply(sin_t, own_sin))
    sin = op.subtract(op.multiply(sin_t, own_cos), op.multiply(cos_t, own_sin))

    subset = rows(list(values["subset_idxs"]))
    x, y = column(subset, 0), column(subset, 1)
    turned = (
        op.subtract(op.multiply(cos, x), op.multiply(sin, y)),
        op.add(op.multiply(sin, x), op.multiply(cos, y)),
    )
    low = [op.reduce_min(each, _ints([0]), keep_dims=True) for each in turned]
    high = [op.reduce_max(each, _ints([0]), keep_dims=True) for each in turned]
    width, height = (op.subtract(b, a) for a, b in zip(low, high, strict=True))
    u, v = (op.multiply(op.add(a, b), _floats(0.5)) for a, b in zip(low, high, strict=True))
    center_x = op.add(op.multiply(cos, u), op.multiply(sin, v))
    center_y = op.subtract(op.multiply(cos, v), op.multiply(sin, u))

    out_width, out_height = values["output_width"], values["output_height"]
    scale_x = op.multiply(width, _floats(values["scale_x"] / out_width))
    scale_y = op.multiply(height, _floats(values["scale_y"] / out_height))
    m00, m01 = op.multiply(cos, scale_x), op.multiply(sin, scale_y)
    m10, m11 = op.negative(op.multiply(sin, scale_x)), op.multiply(cos, scale_y)
    half = _floats(out_width / 2), _floats(out_height / 2)
    m03 = op.subtract(center_x, op.add(op.multiply(m00, half[0]), op.multiply(m01, half[1])))
    m13 = op.subtract(center_y, op.add(op.multiply(m10, half[0]), op.multiply(m11, half[1])))
    zero, one = _floats([[0]]), _floats([[1]])
    elements = [m00, m01, zero, m03, m10, m11, zero, m13]
    elements += [zero, zero, one, zero, zero, zero, zero, one]
    return [op.reshape(op.concat(elements, 1), _ints([1, 4, 4]), False).output(0)]


def sample_bilinear(node: Any, options: bytes) -> list[Any]:
    """Convert ``TransformTensorBilinear``: a map (1, h, w, c) sampled through a matrix.

    A point of the output outside the centres of the map's border pixels is 0. The four pixels
    around a point are gathered as rows of c numbers: OpenVINO's own sampler wants each channel for
    itself, so the whole map would be transposed before it, and each sample after it.
    """
    op = _ops()
    values = read_flexbuffer(options)
    height, width = values["output_height"], values["output_width"]
    count = height * width
    source = node.get_input(0)
    shape = source.get_partial_shape()
    rows, columns, channels = (shape[axis].get_length() for axis in (1, 2, 3))
    last = np.array([columns - 1, rows - 1], np.float32).reshape(2, 1, 1)
    matrix = op.reshape(node.get_input(1), _ints([4, 4]), False)
    y, x = np.mgrid[0:height, 0:width].reshape(2, -1) + 0.5
    centers = np.stack([x, y, np.zeros_like(x), np.ones_like(x)])
    # x and y of each point in the map, (2, points, 1), and of the two pixels beside it.
    found = op.matmul(op.gather(matrix, _ints([0, 1]), _ints(0)), _floats(centers), False, False)
    moved = op.subtract(op.reshape(found, _ints([2, count, 1]), False), _floats(0.5))
    beside = op.add(op.floor(moved), _floats([[[0, 1]]]))
    inside = op.logical_and(
        op.greater_equal(moved, _floats(0)), op.less_equal(moved, _floats(last))
    )
    shares = op.subtract(_floats(1), op.abs(op.subtract(moved, beside)))
    shares = op.multiply(shares, op.convert(inside, "f32"))

    def by_point(pairs: Any, axis: int, dims: list[int]) -> Any:
        return op.reshape(op.gather(pairs, _ints([axis]), _ints(0)), _ints(dims), False)

    place = op.add(
        op.multiply(by_point(beside, 1, [count, 2, 1]), _floats(columns)),
        by_point(beside, 0, [count, 1, 2]),
    )
    # As whole numbers, since what is not a number has no place; a pixel outside has no share.
    place = op.minimum(op.maximum(op.convert(place, "i32"), _whole(0)), _whole(rows * columns - 1))
    share = op.multiply(by_point(shares, 1, [count, 2, 1]), by_point(shares, 0, [count, 1, 2]))
    # The pool of one pixel changes nothing. Without it OpenVINO would keep the whole map, for all
    # its readers, in the order that only this one needs.
    pool = op.max_pool(
        op.transpose(source, _ints([0, 3, 1, 2])), [1, 1], [1, 1], [0, 0], [0, 0], [1, 1]
    )
    in_rows = op.transpose(pool.output(0), _ints([0, 2, 3, 1]))
    pixels = op.gather(
        op.reshape(in_rows, _ints([rows * columns, channels]), False),
        op.reshape(place, _ints([count, 4]), False),
        _ints(0),
    )
    weighed = op.multiply(pixels, op.reshape(share, _ints([count, 4, 1]), False))
    summed = op.reduce_sum(weighed, _ints([1]), False)
    return [op.reshape(summed, _ints([1, height, width, channels]), False).output(0)]


def transform_landmarks(node: Any, options: bytes) -> list[Any]:
    """Convert ``TransformLandmarks``: x and y of landmarks (1, n, 2 or 3) through a matrix."""
    op = _ops()
    source = node.get_input(0)
    shape = source.get_partial_shape()
    count, numbers = (shape[axis].get_length() for axis in (1, 2))
    landmarks = op.reshape(source, _ints([count, numbers]), False)
    matrix = op.reshape(node.get_input(1), _ints([4, 4]), False)
    rows = op.gather(matrix, _ints([0, 1]), _ints(0))
    turn = op.gather(rows, _ints([0, 1]), _ints(1))
    shift = op.reshape(op.gather(rows, _ints([3]), _ints(1)), _ints([1, 2]), False)
    flat = op.gather(landmarks, _ints([0, 1]), _ints(1))
    found = op.add(op.matmul(flat, turn, False, True), shift)
    if numbers == 3:
        found = op.concat([found, op.gather(landmarks, _ints([2]), _ints(1))], 1)
    return [op.reshape(found, _ints([1, count, numbers]), False).output(0)]


CONVERSIONS: Final[dict[str, Conversion]] = {
    "Convolution2DTransposeBias": transposed_convolution,
    "Landmarks2TransformMatrix": landmarks_to_matrix,
    "TransformTensorBilinear": sample_bilinear,
    "TransformLandmarks": transform_landmarks,
}
