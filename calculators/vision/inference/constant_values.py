"""Values in a network that depend on none of its inputs, such as weights: read and made."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Operations that bring a constant into the form that its reader needs.
_SHAPING: Final = ("Convert", "Reshape", "Transpose", "Unsqueeze")


def constant_value(output: Any) -> Array | None:
    """The value of an operation's output; None if it is not known before the network runs."""
    op = output.get_node()
    kind = op.get_type_name()
    if kind == "Constant":
        return np.array(op.get_data())
    source = constant_value(op.input_value(0)) if kind in _SHAPING else None
    if source is None:
        return None
    if kind == "Convert":
        return source.astype(op.get_output_element_type(0).to_dtype())
    if kind == "Transpose":
        order = constant_value(op.input_value(1))
        return None if order is None else source.transpose(order)
    return source.reshape(tuple(op.get_output_shape(0)))


def floats(values: Any) -> Any:
    """A constant of float32."""
    from openvino import opset13  # here: processes without such a model do not load it

    return opset13.constant(np.asarray(values, np.float32))


def ints(values: Any) -> Any:
    """A constant of int64, as OpenVINO wants axes, orders and sizes."""
    from openvino import opset13

    return opset13.constant(np.asarray(values, np.int64))
