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

_INTEGERS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS: Final = {2: "e", 4: "f", 8: "d"}

# Types of FlexBuffers' values.
_INT, _UINT, _FLOAT, _KEY, _STRING = 1, 2, 3, 4, 5
_INDIRECT: Final = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR, _BOOL = 9, 10, 26
_TYPED_VECTORS: Final = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 36: _BOOL}


def read_flexbuffer(data: bytes) -> Any:
    """Return the value in a FlexBuffer: a number, a string, a list or a dict.

    Raises:
        ValueError: the bytes are not a FlexBuffer, or hold a type that is not known here.
    """
    try:
        width = data[-1]
        return _value(data, len(data) - 2 - width, width, data[-2])
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("the options of a custom operation are damaged") from error


def _value(data: bytes, at: int, width: int, packed: int) -> Any:
    """Return the value at ``at``; ``width`` bytes wide if it is a number or an offset."""
    kind, inner = packed >> 2, 1 << (packed & 3)
    if kind == 0:
        return None
    if kind in (_INT, _UINT, _FLOAT, _BOOL):
        return _number(data, at, width, kind)
    place = at - _unsigned(data, at, width)
    if kind in _INDIRECT:
        return _number(data, place, inner, _INDIRECT[kind])
    if kind == _KEY:
        return _key(data, place)
    count = _unsigned(data, place - inner, inner)
    if kind == _STRING:
        return data[place : place + count].decode()
    if kind in _TYPED_VECTORS:
        each = _TYPED_VECTORS[kind]
        return [_typed(data, place + i * inner, inner, each) for i in range(count)]
    if kind not in (_MAP, _VECTOR):
        raise ValueError(f"a FlexBuffer's type {kind} is not known here")
    types = place + count * inner
    values = [_value(data, place + i * inner, inner, data[types + i]) for i in range(count)]
    if kind == _VECTOR:
        return values
    key_width = _unsigned(data, place - 2 * inner, inner)
    keys = place - 3 * inner
    keys -= _unsigned(data, keys, inner)
    names = [_typed(data, keys + i * key_width, key_width, _KEY) for i in range(count)]
    return dict(zip(names, values, strict=True))


def _typed(data: bytes, at: int, width: int, kind: int) -> Any:
    if kind == _KEY:
        return _key(data, at - _unsigned(data, at, width))
    return _number(data, at, width, kind)


def _number(data: bytes, at: int, width: int, kind: int) -> Any:
    forms = {_INT: _INTEGERS, _FLOAT: _FLOATS}.get(kind, _UNSIGNED)
    found = struct.unpack_from("<" + forms[width], data, at)[0]
    return bool(found) if kind == _BOOL else found


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int(struct.unpack_from("<" + _UNSIGNED[width], data, at)[0])


def _key(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


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
