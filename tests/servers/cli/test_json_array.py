"""NumPy arrays in feeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from servers.cli.json_value import decode_value, encode_value


def decoded(kind: str, value: Any) -> Any:
    return decode_value({"type": kind, "value": value})


@pytest.mark.parametrize(
    ("kind", "value", "shape"),
    [
        ("ndarray<float32>", [[1, 2.5], [3, 4]], (2, 2)),
        ("ndarray<float16>", 1.5, ()),
        ("ndarray<int8>", [-128, 127], (2,)),
        ("ndarray<uint64>", [2**64 - 1], (1,)),
        ("ndarray<bool>", [[True], [False]], (2, 1)),
        ("ndarray<int32>", [], (0,)),
        ("ndarray<float64>", [[], []], (2, 0)),
    ],
)
def test_lists_become_an_array(kind: str, value: Any, shape: tuple[int, ...]) -> None:
    array = decoded(kind, value)
    assert isinstance(array, np.ndarray)
    assert f"ndarray<{array.dtype}>" == kind
    assert array.shape == shape
    assert encode_value(array) == value


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("ndarray<float31>", [1], '"float31" is not an element type: one of bool, int8'),
        ("ndarray<object>", [1], "is not an element type"),
        ("ndarray<>", [1], "is not an element type"),
        ("ndarray<float32>", [[1], [2, 3]], "needs lists of the same length"),
        ("ndarray<float32>", ["1"], "needs values of float32 only"),
        ("ndarray<float32>", [None], "needs values of float32 only"),
        ("ndarray<float32>", [True], "needs values of float32 only"),
        ("ndarray<float32>", {"a": 1}, "needs values of float32 only"),
        ("ndarray<int32>", [1.5], "needs values of int32 only"),
        ("ndarray<int8>", [128], "needs values of int8 only"),
        ("ndarray<uint8>", [-1], "needs values of uint8 only"),
        ("ndarray<int64>", [2**64], "needs values of int64 only"),
        ("ndarray<bool>", [0, 1], "needs values of bool only"),
    ],
)
def test_what_is_no_such_array_is_refused(kind: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(kind, value)
