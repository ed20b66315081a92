"""The shape of a tensor that a client sends, checked before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.place import shown_shape

MAX_DIMENSIONS = 32
"""The maximum of every version of numpy."""

MAX_ELEMENTS = 2**31 - 1
"""More than any message can carry; only a shape with a zero in it could say so much."""


def checked_shape(dimensions: Sequence[int], place: str) -> tuple[int, ...]:
    """Check that an array of the shape ``dimensions`` can be made. No dimensions: one element.

    Raises:
        RequestError: a dimension is negative, or there are too many dimensions or elements. Zeros
            count as ones here, so that no order of multiplication can overflow.
    """
    if len(dimensions) > MAX_DIMENSIONS:
        raise RequestError(
            f"{place}: the shape has {len(dimensions)} dimensions; at most {MAX_DIMENSIONS} can be"
        )
    shape = tuple(dimensions)
    if shape and min(shape) < 0:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has a negative dimension; the shape of data"
            " is known"
        )
    if math.prod([dimension or 1 for dimension in shape]) > MAX_ELEMENTS:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has too many elements; at most"
            f" {MAX_ELEMENTS} can be"
        )
    return shape
