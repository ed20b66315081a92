"""Operations of a network replaced by others that OpenVINO has quicker kernels for.

The replacements compute the same sums in another order, so results differ by the noise of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.vision.inference.constant_values import constant_value, ints

Array = npt.NDArray[Any]

#: Channels up to which a convolution to one channel fills a kernel badly, and up to which an
#: interpolation takes as long for each pixel as it would for more.
_FEW: Final = 16
#: What doubles a map: shares of a pixel and of its neighbour, in linear interpolation.
_NEAR: Final = 0.75
_FAR: Final = 0.25


def use_fast_operations(network: Any) -> None:
    """Replace what OpenVINO is slow at, in place."""
    for op in network.get_ordered_ops():
        found = None
        if op.get_type_name() == "Convolution":
            found = _few_channels_to_one(op) or _product_before_residual(op)
        elif op.get_type_name() == "Add":
            found = _whole_window(op)
        elif op.get_type_name() == "Interpolate":
            found = _doubled_few_channels(op)
        if found is not None:
            op.output(0).replace(found.output(0))


def _few_channels_to_one(op: Any) -> Any:
    """Return the equal of a convolution of a few channels to one; None for others."""
    attributes, weights = op.get_attributes(), constant_value(op.input_value(1))
    if weights is None or attributes["strides"] != [1, 1] or attributes["dilations"] != [1, 1]:
        return None
    made, taken, *window = weights.shape
    if made != 1 or taken > _FEW or window == [1, 1]:
        return None
    return _by_channel(op, weights)


def _by_channel(op: Any, weights: Array) -> Any:
    """A convolution to a single channel, as one of each channel for itself, and their sum."""
    from openvino import opset13 as ov

    attributes = op.get_attributes()
    _, channels, rows, columns = weights.shape
    apart = ov.group_convolution(
        op.input_value(0),
        ov.constant(weights.reshape(channels, 1, 1, rows, columns)),
        [1, 1],
        list(attributes["pads_begin"]),
        list(attributes["pads_end"]),
        [1, 1],
    )
    return ov.convolution(
        apart, ov.constant(np.ones((1, channels, 1, 1), np.float32)), [1, 1], [0, 0], [0, 0], [1, 1]
    )


def _product_before_residual(op: Any) -> Any:
    """Return the product that a convolution of single pixels is, in a residual block; else None.

    With PRelu after the sum OpenVINO computes the block faster from a product than from a
    convolution that does all in one; with other functions it does not.
    """
    from openvino import opset13 as ov

    attributes, weights = op.get_attributes(), constant_value(op.input_value(1))
    if weights is None or weights.shape[2:] != (1, 1) or attributes["strides"] != [1, 1]:
        return None
    if _is_padded(attributes):
        return None
    bias = _only_reader(op, "Add")
    block = _only_reader(bias, "Add")
    if _only_reader(block, "PRelu") is None or any(
        constant_value(value) is not None for value in block.input_values()
    ):
        return None
    pixels = ov.transpose(op.input_value(0), ints([0, 2, 3, 1]))
    product = ov.matmul(pixels, ov.constant(weights[:, :, 0, 0].copy()), False, True)
    return ov.transpose(product, ints([0, 3, 1, 2]))


def _is_padded(attributes: Mapping[str, Any]) -> bool:
    return any([*attributes["pads_begin"], *attributes["pads_end"]])


def _only_reader(op: Any, kind: str) -> Any:
    """The operation of a kind that alone takes what this one makes; None if there is none."""
    targets = [] if op is None else list(op.output(0).get_target_inputs())
    found = targets[0].get_node() if len(targets) == 1 else None
    return found if found is not None and found.get_type_name() == kind else None


def _whole_window(op: Any) -> Any:
    """Return the product that a convolution and its bias are whose window is the map; else None."""
    from openvino import opset13 as ov

    convolution = op.input_value(0).get_node()
    if convolution.get_type_name() != "Convolution" or _is_padded(convolution.get_attributes()):
        return None
    bias, weights = constant_value(op.input_value(1)), constant_value(convolution.input_value(1))
    shapes = [port.get_partial_shape() for port in (convolution.input(0), op.output(0))]
    if bias is None or weights is None or not all(shape.is_static for shape in shapes):
        return None
    taken, made = (tuple(shape.to_shape()) for shape in shapes)
    count = len(weights)
    if taken != (1, *weights.shape[1:]) or made != (1, count, 1, 1) or bias.size != count:
        return None

    # In the order of a map in memory: channels last.
    flat = ov.reshape(
        ov.transpose(convolution.input_value(0), ints([0, 2, 3, 1])), ints([1, -1]), False
    )
    rows = np.ascontiguousarray(weights.transpose(0, 2, 3, 1)).reshape(count, -1)
    product = ov.matmul(flat, ov.constant(rows), False, True)
    found = ov.add(product, ov.constant(bias.reshape(1, count)))
    return ov.reshape(found, ints([1, count, 1, 1]), False)


def _doubled_few_channels(op: Any) -> Any:
    """Return the linear doubling of a map (1, h, w, c) of a few channels; None for others."""
    attributes = op.get_attributes()
    shapes = op.input_value(0).get_partial_shape(), op.get_output_partial_shape(0)
    if (
        attributes["mode"] not in ("linear", "linear_onnx")
        or attributes["coordinate_transformation_mode"] != "half_pixel"
        or attributes["antialias"]
        or any(attributes["pads_begin"] + attributes["pads_end"])
        or not all(shape.is_static for shape in shapes)
    ):
        return None
    own, wanted = (tuple(shape.to_shape()) for shape in shapes)
    if len(own) != 4 or own[0] != 1 or own[3] > _FEW:
        return None
    _, height, width, channels = own
    if wanted != (1, 2 * height, 2 * width, channels):
        return None
    return _doubled(op.input_value(0), height, width, channels)


def _doubled(source: Any, height: int, width: int, channels: int) -> Any:
    """A map (1, h, w, c) with sides twice as long, by linear interpolation.

    A convolution makes both pixels of each pixel in a row, as 2 c channels, which are those pixels
    in memory; then each row is mixed with the row above, and with the row below.
    """
    from openvino import opset13 as ov

    weights = np.zeros((2, channels, channels, 1, 3), np.float32)
    for channel in range(channels):
        weights[0, channel, channel, 0] = _FAR, _NEAR, 0
        weights[1, channel, channel, 0] = 0, _NEAR, _FAR
    wide = ov.convolution(
        ov.transpose(source, ints([0, 3, 1, 2])),
        ov.constant(weights.reshape(2 * channels, channels, 1, 3)),
        [1, 1],
        [0, 1],
        [0, 1],
        [1, 1],
    )
    length = 2 * width * channels
    rows = ov.reshape(ov.transpose(wide, ints([0, 2, 3, 1])), ints([height, length]), False)
    # Beyond the border lie zeros, so the pixels at both ends of a row have their own share only.
    shares = np.ones((1, 1, 2 * width, channels), np.float32)
    shares[:, :, [0, -1]] = 1 / _NEAR
    share = shares.reshape(1, 1, length)
    own = np.arange(height)
    beside = np.clip(np.stack([own - 1, own + 1], axis=1), 0, height - 1).astype(np.int32)
    mixed = ov.add(
        ov.multiply(
            ov.gather(rows, ov.constant(beside), ints([0])),
            ov.constant((share * _FAR).astype(np.float32)),
        ),
        ov.multiply(
            ov.reshape(rows, ints([height, 1, length]), False),
            ov.constant((share * _NEAR).astype(np.float32)),
        ),
    )
    return ov.reshape(mixed, ints([1, 2 * height, 2 * width, channels]), False)
