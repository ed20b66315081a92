"""Tensors become bytes and come back, whatever their datatype; hostile bytes are refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    MAX_ELEMENTS,
    MAX_STRINGS,
    Datatype,
    InferRequest,
    RequestedOutput,
    Tensor,
    checked_shape,
    from_raw,
    quoted,
    shown_shape,
    to_raw,
)
from tests.calculators.tensors.inference.tensors import SHAPES, same, tensors


@given(tensors())
def test_every_tensor_comes_back_from_its_bytes(tensor: Tensor) -> None:
    data = from_raw(tensor.datatype, tensor.shape, bytes(to_raw(tensor)), "x")

    assert same(Tensor(tensor.name, tensor.datatype, data), tensor)


@given(st.sampled_from(Datatype), SHAPES, st.binary(max_size=64))
def test_any_bytes_become_a_tensor_or_a_request_error(
    datatype: Datatype, shape: tuple[int, ...], raw: bytes
) -> None:
    try:
        data = from_raw(datatype, shape, raw, "x")
    except RequestError:
        return
    assert bytes(to_raw(Tensor("x", datatype, data))) == raw


def test_data_is_a_view_of_the_bytes() -> None:
    raw = np.arange(8, dtype="<f4").tobytes()

    data = from_raw(Datatype.FP32, (2, 4), raw, "x")

    assert np.shares_memory(data, np.frombuffer(raw, np.uint8))
    assert not data.flags.writeable


def test_data_that_is_not_aligned_is_copied() -> None:
    body = memoryview(b"\0" + np.arange(2, dtype="<f8").tobytes())
    cuts = [memoryview(bytes(body[1:])), body[1:]]

    arrays = [from_raw(Datatype.FP64, (2,), cut, "x") for cut in cuts]

    assert all(array.flags.aligned and not array.flags.writeable for array in arrays)
    assert all(array.tolist() == [0.0, 1.0] for array in arrays)


def test_rows_of_a_larger_array_are_written_in_order() -> None:
    tensor = Tensor("x", Datatype.INT16, np.arange(6, dtype="<i2").reshape(2, 3).T)

    assert bytes(to_raw(tensor)) == struct.pack("<6h", 0, 3, 1, 4, 2, 5)


def test_a_text_is_preceded_by_its_length() -> None:
    tensor = Tensor.of("x", np.array(["é", ""]))

    assert bytes(to_raw(tensor)) == b"\x02\0\0\0\xc3\xa9\0\0\0\0"


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "text"),
    [
        (Datatype.FP32, (2,), b"\0" * 7, "x: FP32 of the shape [2] takes 8 bytes, 7 came"),
        (Datatype.FP32, (), b"", "x: FP32 of the shape [] takes 4 bytes, 0 came"),
        (Datatype.INT8, (0, 3), b"\0", "x: INT8 of the shape [0, 3] takes 0 bytes, 1 came"),
        (Datatype.BOOL, (2,), b"\x01\x02", "x: a byte of a BOOL is neither 0 nor 1"),
        (
            Datatype.BYTES,
            (2,),
            b"\x01\0\0\0a\0",
            "x: the data ends before the length of element 1 of 2",
        ),
        (
            Datatype.BYTES,
            (1,),
            b"\xff\xff\xff\xffa",
            "x: element 0 is said to have 4294967295 bytes, 1 are left",
        ),
        (Datatype.BYTES, (1,), b"\0\0\0\0ab", "x: 2 bytes are left over after 1 elements"),
        (Datatype.BYTES, (0,), b"a", "x: 1 bytes are left over after 0 elements"),
        (
            Datatype.BYTES,
            (MAX_STRINGS + 1,),
            b"",
            f"x: a BYTES tensor can have {MAX_STRINGS} elements, not {MAX_STRINGS + 1}",
        ),
    ],
)
def test_bytes_that_do_not_match_the_tensor_are_refused(
    datatype: Datatype, shape: tuple[int, ...], raw: bytes, text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        from_raw(datatype, shape, raw, "x")
    assert caught.value.message == text


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([-1, 4], "x: the shape [-1, 4] has a negative dimension"),
        ([2**62, 8], "x: the shape [4611686018427387904, 8] has too many elements"),
        ([2**32, 2**32], "has too many elements"),
        ([0, 2**62], "has too many elements"),
        ([0, MAX_ELEMENTS + 1], "has too many elements"),
        ([1] * 33, "x: the shape has 33 dimensions; at most 32 can be"),
        ([1] * 8 + [-1], "[1, 1, 1, 1, 1, 1, 1, 1, ...] has a negative dimension"),
    ],
)
def test_a_shape_that_no_array_can_have_is_refused(shape: list[int], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        checked_shape(shape, "x")
    assert text in caught.value.message


@given(st.lists(st.integers(-(2**200), 2**200), max_size=40))
def test_any_shape_is_refused_or_can_be_of_an_empty_or_a_virtual_array(shape: list[int]) -> None:
    try:
        checked = checked_shape(shape, "x")
    except RequestError:
        return
    np.broadcast_to(np.float64(0), checked)
    if 0 in checked:
        np.empty(checked, np.float64)


@pytest.mark.parametrize("name", ["FP31", "fp32", "", "INVALID", "f" * 1000])
def test_an_unknown_datatype_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        Datatype.named(name, "x")
    text = caught.value.message
    assert text.startswith(f"x: unknown datatype {quoted(name)}; the datatypes are BOOL, UINT8,")
    assert len(text) < 300


def test_arrays_have_the_datatype_of_their_elements() -> None:
    for datatype in Datatype:
        tensor = Tensor.of("x", np.zeros((1, 2), datatype.dtype) if datatype != "BYTES" else text())
        assert tensor.datatype == (Datatype.UINT16 if datatype == "BF16" else datatype)
    big_endian = Tensor.of("x", np.array([1, 2], ">i4"))
    assert bytes(to_raw(big_endian)) == b"\x01\0\0\0\x02\0\0\0"


def text() -> Any:
    return np.array([["a", b"b"]], dtype=object)


@pytest.mark.parametrize(
    "array", [np.zeros(1, complex), np.array([1, "a"], dtype=object), np.zeros(1, "M8[s]")]
)
def test_an_array_without_a_datatype_is_refused(array: Any) -> None:
    with pytest.raises(ValueError, match=r"datatype|bytes and str"):
        Tensor.of("x", array)


def test_data_must_have_the_type_of_the_datatype() -> None:
    with pytest.raises(ValueError, match=r'FP32 tensor "x" has the type float64; .* float32'):
        Tensor("x", Datatype.FP32, np.zeros(1))


def test_names_must_be_present_and_distinct() -> None:
    one = Tensor.of("x", np.zeros(1))
    with pytest.raises(RequestError, match=r'inputs\[0\] and inputs\[1\] have the same name, "x"'):
        InferRequest("m", inputs=(one, one))
    with pytest.raises(RequestError, match=r"outputs\[1\] has no name"):
        InferRequest("m", requested_outputs=(RequestedOutput("y"), RequestedOutput("")))


def test_long_values_are_shortened_in_errors() -> None:
    assert quoted("n" * 1000) == f'"{"n" * 64}..."'
    assert len(shown_shape([10**60] * 1000)) < 250
