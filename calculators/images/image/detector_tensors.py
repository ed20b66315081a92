"""The tensors of a detector, with checks of their type and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError

Floats = npt.NDArray[np.float32]


def float_tensor(tensors: list[Any], index: int, name: str) -> Floats:
    """The tensor at ``index``, of float32.

    Raises:
        ImageError: it is of another type.
    """
    tensor: npt.NDArray[Any] = tensors[index]
    if tensor.dtype != np.float32:
        raise ImageError(
            f"tensor {index} of the list, the {name}, has elements of type {tensor.dtype}; "
            f"float32 is expected"
        )
    return tensor


def shaped(tensor: Floats, shape: tuple[int, ...], name: str) -> Floats:
    """The tensor reshaped to ``shape``; its own shape may have leading ones.

    Raises:
        ImageError: it has another shape.
    """
    own = tensor.shape
    leading = len(own) - len(shape)
    if leading < 0 or own[leading:] != shape or any(length != 1 for length in own[:leading]):
        raise ImageError(
            f"the tensor with the {name} has the shape {tuple(own[:8])}; "
            f"{(*((1,) * max(leading, 1)), *shape)} is expected"
        )
    return tensor.reshape(shape)
