"""`pyovms.Tensor` as handlers use it."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

from calculators.tensors.python.pyovms import DTYPES, Tensor
from calculators.tensors.python.python_executor_calculator import pack_elements


@pytest.mark.parametrize(("datatype", "dtype"), DTYPES.items())
def test_a_tensor_of_an_array_is_like_the_array(datatype: str, dtype: np.dtype[Any]) -> None:
    array = np.ones((1, 3, 4), dtype)
    tensor = Tensor("input", array)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("input", datatype, (1, 3, 4))
    assert tensor.size == array.nbytes
    view, wanted = tensor.data, array.data
    assert isinstance(view, memoryview)
    assert (view.shape, view.strides) == (wanted.shape, wanted.strides)
    assert (view.format, view.itemsize) == (wanted.format, wanted.itemsize)
    assert view.readonly
    assert bytes(tensor) == array.tobytes()


def test_a_tensor_can_be_made_of_bytes() -> None:
    tensor = Tensor("out", b"some text")
    assert (tensor.datatype, tensor.shape, tensor.size) == ("UINT8", (9,), 9)
    assert (tensor.data.format, tensor.data.shape) == ("B", (9,))
    assert bytes(tensor).decode() == "some text"
    assert tensor.data.tobytes() == b"some text"
    assert (Tensor("out", b"").shape, bytes(Tensor("out", b""))) == ((0,), b"")


def test_tensors_support_the_buffer_protocol() -> None:
    # NumPy's type hints support the buffer protocol from Python 3.12 on only.
    tensor: Any = Tensor("in", np.array([1.5, 2.5], np.float32))
    assert struct.unpack("2f", bytes(tensor)) == (1.5, 2.5)
    assert struct.unpack_from("f", tensor, 4) == (2.5,)
    assert io.BytesIO(tensor).read() == bytes(tensor)
    assert np.frombuffer(tensor, np.float32).tolist() == [1.5, 2.5]
    array = np.array(tensor)
    assert (type(array), array.tolist(), array.flags.writeable) == (np.ndarray, [1.5, 2.5], True)


def test_a_tensor_is_no_copy_and_cannot_be_written() -> None:
    array = np.zeros(3)
    tensor: Any = Tensor("in", array)
    seen = np.asarray(tensor)
    assert tensor.ptr == array.ctypes.data
    assert tensor.ref_obj is array
    array[0] = 7
    assert seen[0] == 7
    assert not seen.flags.writeable
    with pytest.raises(TypeError):
        tensor.data[0] = 1.0


def test_given_shape_and_datatype_only_describe_the_data() -> None:
    tensor = Tensor("out", b"abcdef", [2, 3], "my_type")
    assert (tensor.shape, tensor.datatype, tensor.size) == ((2, 3), "my_type", 6)
    assert (tensor.data.shape, tensor.data.format) == ((6,), "B")
    assert np.array(tensor).shape == (6,)


def test_strings_of_an_array_are_read_back_by_their_datatype() -> None:
    labels = np.array(["cat", "zebra"])
    tensor = Tensor("labels", labels, datatype=labels.dtype.str)
    assert np.frombuffer(tensor.data, tensor.datatype).tolist() == ["cat", "zebra"]
    assert Tensor("labels", labels).datatype == labels.data.format


@pytest.mark.parametrize("keyword", ["data", "buffer"])
def test_the_data_has_both_names(keyword: str) -> None:
    arguments: dict[str, Any] = {"name": "out", keyword: b"x"}
    assert bytes(Tensor(**arguments)) == b"x"


def test_computing_with_a_tensor_gives_an_array() -> None:
    tensor = Tensor("in", np.array([[1.0, 2.0]]), [2], "FP64")
    doubled = tensor * 2
    assert (type(doubled), doubled.tolist()) == (np.ndarray, [[2.0, 4.0]])
    assert np.sum(tensor) == 3.0
    assert np.linalg.norm(tensor) == pytest.approx(5**0.5)
    assert tensor[0].shape == (2,)


def test_its_repr_describes_it() -> None:
    assert str(Tensor("in", b"ab")) == "Tensor('in', datatype='UINT8', shape=(2,))"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("out", "text"), "buffer protocol"),
        (("out", [1, 2]), "buffer protocol"),
        (("out", np.array(["2020"], "M8[D]")), "buffer protocol"),
        (("out",), 'Tensor\\("out"\\) needs data'),
        ((b"out", b"x"), "the name of a Tensor is a str, not bytes"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Tensor(*arguments)


# Requests -----------------------------------------------------------------------------------------


def test_bytes_of_a_request_become_numbers() -> None:
    raw = np.arange(6, dtype=np.float32).tobytes()
    tensor = Tensor.of_request("in", raw, [2, 3], "FP32")
    assert (tensor.shape, tensor.datatype) == ((2, 3), "FP32")
    assert np.array(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert Tensor.of_request("in", b"", [0, 3], "INT64").data.shape == (0, 3)


@pytest.mark.parametrize("datatype", ["BYTES", "my_string", "BF16"])
def test_a_request_of_an_unknown_type_stays_bytes(datatype: str) -> None:
    tensor = Tensor.of_request("in", b"null0terminated0string0", (3,), datatype)
    assert (tensor.shape, tensor.datatype) == ((3,), datatype)
    assert (tensor.data.shape, tensor.data.format) == ((23,), "B")


@pytest.mark.parametrize("shape", [[3], [2, 2], [-1, 4]])
def test_a_request_of_another_size_is_refused(shape: list[int]) -> None:
    with pytest.raises(ValueError, match='the tensor "in" has 5 bytes, which'):
        Tensor.of_request("in", b"12345", shape, "INT16")


def test_packed_elements_are_preceded_by_their_lengths() -> None:
    assert pack_elements([b"abc", "é", b""]) == b"\3\0\0\0abc\2\0\0\0\xc3\xa9\0\0\0\0"
    with pytest.raises(TypeError, match="bytes or str, not int"):
        pack_elements([3])  # type: ignore[list-item]
