"""Operations of a network replaced by others that OpenVINO has quicker kernels for.

The replacements compute the same sums in another order, so results differ by the noise of float32.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Channels up to which a convolution to one channel fills a kernel badly.
_FEW: Final = 16


def use_fast_operations(network: Any) -> None:
    """Replace what OpenVINO is slow at, in place."""
    for op in network.get_ordered_ops():
        if op.get_type_name() != "Convolution":
            continue
        attributes, weights = op.get_attributes(), _weights(op)
        if weights is None or attributes["strides"] != [1, 1] or attributes["dilations"] != [1, 1]:
            continue
        made, taken, *window = weights.shape
        if made == 1 and taken <= _FEW and window != [1, 1]:
            op.output(0).replace(_by_channel(op, weights).output(0))


def _weights(op: Any) -> Array | None:
    """The weights (out, in, height, width) of a convolution, if they are constant."""
    node = op.input_value(1).get_node()
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant":
        return None
    return np.asarray(node.get_data(), np.float32)


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
