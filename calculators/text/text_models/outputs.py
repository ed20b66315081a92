"""Outputs of encoder models, and ways from the vectors of tokens to one vector of a text.

For the functions with which tasks complete their models; they run in the model's process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

#: A divisor that would be smaller, of a text of padding, is this.
_SMALLEST = 1e-12


def find_output(model: ov.Model, rank: int) -> Any | None:
    """Return the first output with this number of dimensions, as it enters the result; or None."""
    for result in model.get_results():
        output = result.input_value(0)
        if output.get_partial_shape().rank.is_static and len(output.get_partial_shape()) == rank:
            return output
    return None


def with_output(model: ov.Model, node: Any) -> ov.Model:
    """Return a model of the same inputs whose only output is ``node``, as 32-bit floats."""
    result = op.result(op.convert(node, "f32"))
    result.output(0).set_names({"result"})
    return ov.Model([result], model.get_sinks(), model.get_parameters(), model.get_friendly_name())


def mask_of(model: ov.Model) -> Any:
    """Return the input ``attention_mask``.

    Raises:
        RuntimeError: the model has none.
    """
    for port in model.inputs:
        if "attention_mask" in port.get_names():
            return port.get_node().output(0)
    raise RuntimeError("openvino_model.xml has no input attention_mask")


def first_token(hidden: Any) -> Any:
    """Return the vector of the first token, shape ``[batch, size]``."""
    return op.gather(hidden, op.constant(np.int64(0)), op.constant(np.int64(1)))


def last_token(hidden: Any, mask: Any) -> Any:
    """Return the vector of the last token that is no padding, shape ``[batch, size]``."""
    axis = op.constant(np.array([1], np.int64))
    counts = op.reduce_sum(op.convert(mask, "i64"), axis, keep_dims=False)
    last = op.unsqueeze(op.subtract(counts, op.constant(np.int64(1))), axis)
    return op.gather_nd(hidden, last, batch_dims=1)


def mean(hidden: Any, mask: Any) -> Any:
    """Return the mean of the vectors of tokens that are no padding, shape ``[batch, size]``."""
    hidden = op.convert(hidden, "f32")
    weights = op.unsqueeze(op.convert(mask, "f32"), op.constant(np.array([-1], np.int64)))
    # Padding may hold any value, also infinite ones, which would survive a factor of 0.
    zero = op.constant(np.float32(0))
    kept = op.select(op.greater(weights, zero), hidden, zero)
    axis = op.constant(np.array([1], np.int64))
    total = op.reduce_sum(kept, axis, keep_dims=False)
    count = op.reduce_sum(weights, axis, keep_dims=False)
    return op.divide(total, op.maximum(count, op.constant(np.float32(_SMALLEST))))
