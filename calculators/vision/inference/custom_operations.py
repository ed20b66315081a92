"""MediaPipe's own TFLite operations, made of OpenVINO's.

A model of attention cuts a small map out of a large one around landmarks that it has just found, by
`Landmarks2TransformMatrix` and `TransformTensorBilinear` (`attention_operations`), and moves the
landmarks that it finds there back by `TransformLandmarks`. `Convolution2DTransposeBias` is a
transposed convolution with a bias.

Source: MediaPipe ``util/tflite/operations`` and ``util/tflite/tflite_gpu_runner``'s landmarks
operations, as formulas.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from calculators.vision.inference.constant_values import ints
from calculators.vision.inference.flexbuffer import read_flexbuffer

#: Makes the outputs of one operation; gets the frontend's node and the operation's options.
Conversion = Callable[[Any, bytes], list[Any]]

_SAME_PADDING: Final = 1


def _ops() -> Any:
    from openvino import opset13  # here: processes without such a model do not load it

    return opset13


def transposed_convolution(node: Any, options: bytes) -> list[Any]:
    """Convert ``Convolution2DTransposeBias``: x (NHWC), weights (OHWI) and bias."""
    op = _ops()
    padding, stride_width, stride_height = struct.unpack_from("<3i", options)
    x, weights, bias = (node.get_input(place) for place in range(3))
    found = op.convolution_backprop_data(
        op.transpose(x, ints([0, 3, 1, 2])),
        op.transpose(weights, ints([3, 0, 1, 2])),
        strides=[stride_height, stride_width],
        auto_pad="same_upper" if padding == _SAME_PADDING else "valid",
    )
    return [op.add(op.transpose(found, ints([0, 2, 3, 1])), bias).output(0)]


def landmarks_to_matrix(node: Any, options: bytes) -> list[Any]:
    """Convert ``Landmarks2TransformMatrix``: landmarks (1, n, 3) to a matrix (1, 4, 4)."""
    from calculators.vision.inference.attention_operations import LandmarksToMatrix

    found = LandmarksToMatrix(node.get_input(0), read_flexbuffer(options))
    return [found.output(0)]


def sample_bilinear(node: Any, options: bytes) -> list[Any]:
    """Convert ``TransformTensorBilinear``: a map (1, h, w, c) sampled through a matrix."""
    from calculators.vision.inference.attention_operations import SampleBilinear

    values = read_flexbuffer(options)
    size = values["output_height"], values["output_width"]
    return [SampleBilinear(node.get_input(0), node.get_input(1), *size).output(0)]


def transform_landmarks(node: Any, options: bytes) -> list[Any]:
    """Convert ``TransformLandmarks``: x and y of landmarks (1, n, 2 or 3) through a matrix."""
    op = _ops()
    source = node.get_input(0)
    shape = source.get_partial_shape()
    count, numbers = (shape[axis].get_length() for axis in (1, 2))
    landmarks = op.reshape(source, ints([count, numbers]), False)
    matrix = op.reshape(node.get_input(1), ints([4, 4]), False)
    rows = op.gather(matrix, ints([0, 1]), ints(0))
    turn = op.gather(rows, ints([0, 1]), ints(1))
    shift = op.reshape(op.gather(rows, ints([3]), ints(1)), ints([1, 2]), False)
    flat = op.gather(landmarks, ints([0, 1]), ints(1))
    found = op.add(op.matmul(flat, turn, False, True), shift)
    if numbers == 3:
        found = op.concat([found, op.gather(landmarks, ints([2]), ints(1))], 1)
    return [op.reshape(found, ints([1, count, numbers]), False).output(0)]


CONVERSIONS: Final[dict[str, Conversion]] = {
    "Convolution2DTransposeBias": transposed_convolution,
    "Landmarks2TransformMatrix": landmarks_to_matrix,
    "TransformTensorBilinear": sample_bilinear,
    "TransformLandmarks": transform_landmarks,
}
