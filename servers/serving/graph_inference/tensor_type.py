"""`TensorType`: the datatype and shape that a declared packet type implies."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final, get_args, get_origin

import numpy as np

from calculators.images.image.image_frame import ImageFrame
from calculators.tensors.inference import Datatype
from calculators.tensors.inference.place import shown_shape

#: The datatypes of plain values, each without loss.
PLAIN: Final[dict[Any, Datatype]] = {
    str: Datatype.BYTES,
    bytes: Datatype.BYTES,
    bool: Datatype.BOOL,
    int: Datatype.INT64,
    float: Datatype.FP64,
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Datatype and shape, as far as they are known.

    Attributes:
        datatype: None is any.
        shape: -1 is any length; None is any shape.
    """

    datatype: Datatype | None = None
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" of the shape {shown_shape(self.shape)}"
        return f"{self.datatype or 'a tensor'}{shape}"


def plain_type(spec: Any) -> tuple[type, int] | None:
    """Return the base type of ``spec`` and the depth of lists: (int, 1) for ``list[int]``.

    None if it is not a plain value.
    """
    rank = 0
    while get_origin(spec) is list:
        (spec,) = get_args(spec)
        rank += 1
    return (spec, rank) if spec in PLAIN else None


def tensor_type_of(spec: Any) -> TensorType:
    """Return the type of tensors for this packet type. A plain value is one element, [1]."""
    plain = plain_type(spec)
    if plain is not None:
        base, rank = plain
        return TensorType(PLAIN[base], (-1,) * rank if rank else (1,))
    if spec is ImageFrame:
        return TensorType(Datatype.UINT8, (-1, -1, -1))
    if get_origin(spec) is np.ndarray:
        shape, dtype = get_args(spec)
        return TensorType(_datatype_of(dtype), _shape_of(shape))
    return TensorType()


def _datatype_of(dtype: Any) -> Datatype | None:
    """Return the datatype of ``np.dtype[np.float32]``; None if abstract, as `np.floating`."""
    element: Any = next(iter(get_args(dtype)), None)
    if not (isinstance(element, type) and issubclass(element, np.generic)):
        return None
    try:
        return Datatype.of(np.dtype(element))
    except (TypeError, ValueError):
        return None


def _shape_of(shape: Any) -> tuple[int, ...] | None:
    """Return the shape for ``tuple[int, int]``, two unknown lengths; None if the rank is open."""
    lengths = get_args(shape)
    if get_origin(shape) is not tuple or any(isinstance(each, EllipsisType) for each in lengths):
        return None
    return (-1,) * len(lengths)
