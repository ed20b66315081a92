"""Tensors for property tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from calculators.tensors.inference import Datatype, Tensor, strings

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARAMETERS = st.dictionaries(
    st.text(max_size=8),
    st.one_of(
        st.booleans(),
        INT64,
        st.integers(2**63, 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    max_size=3,
)


@st.composite
def tensors(draw: st.DrawFn, name: str = "x") -> Tensor:
    """Strategy for any tensor: any bits, so NaN too."""
    datatype = draw(st.sampled_from(Datatype))
    shape = draw(SHAPES)
    count = math.prod(shape)
    if datatype == Datatype.BYTES:
        elements = draw(st.lists(st.binary(max_size=6), min_size=count, max_size=count))
        return Tensor(name, datatype, strings(elements, shape))
    size = count * datatype.dtype.itemsize
    bits: Any = draw(st.binary(min_size=size, max_size=size))
    if datatype == Datatype.BOOL:
        bits = bytes(byte & 1 for byte in bits)
    return Tensor(name, datatype, np.frombuffer(bits, datatype.dtype).reshape(shape))


def named(drawn: list[Tensor]) -> tuple[Tensor, ...]:
    """Give the tensors distinct names."""
    return tuple(Tensor(f"x{at}", one.datatype, one.data) for at, one in enumerate(drawn))


def same(one: Tensor, other: Tensor) -> bool:
    """Return True if both are equal to the last bit."""
    if (one.name, one.datatype, one.shape) != (other.name, other.datatype, other.shape):
        return False
    if one.datatype == Datatype.BYTES:
        return bool(one.data.ravel().tolist() == other.data.ravel().tolist())
    return one.data.tobytes() == other.data.tobytes()
