"""Conversion of output packets to tensors, by the type of the value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calculators.images.image.image_frame import ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor
from calculators.tensors.inference.place import quoted
from calculators.tensors.inference.raw_data import from_raw
from calculators.tensors.python import pyovms
from graph_runtime import Code
from servers.serving.graph_inference.input_values import AnyTensor
from servers.serving.graph_inference.tensor_type import PLAIN

_NUMBERS: Final = {each.dtype: each for each in Datatype if each not in ("BF16", "BYTES")}


def tensor_of(name: str, value: Any, datatype: Datatype | None = None) -> AnyTensor:
    """Return the tensor for a packet of the output ``name``.

    Args:
        datatype: the declared datatype, or None; needed for empty lists and for BF16.

    Raises:
        RequestError: the value is no tensor; INTERNAL, because the graph is at fault.
    """
    convert = _BY_TYPE.get(type(value))
    if convert is None:
        # Before arrays, because a `pyovms.Tensor` is an array too.
        convert = next((each for kind, each in _BY_TYPE.items() if isinstance(value, kind)), None)
    if convert is None:
        raise _bad(name, f"a {type(value).__name__}, which cannot become a tensor")
    return convert(name, value, datatype)


def _python(name: str, tensor: Any, declared: Datatype | None) -> AnyTensor:
    shape = tensor.shape
    if tensor.datatype not in Datatype.__members__:
        data = np.ascontiguousarray(np.asarray(tensor)).reshape(-1).view(np.uint8).data
        return CustomTensor(name, tensor.datatype, shape, data)
    datatype = Datatype(tensor.datatype)
    array = np.asarray(tensor)
    if array.dtype == datatype.dtype and array.shape == shape:
        return Tensor(name, datatype, array)
    raw = bytes(tensor)
    try:
        return Tensor(name, datatype, from_raw(datatype, shape, raw, f"output {quoted(name)}"))
    except RequestError as error:
        if datatype == Datatype.BYTES and shape == array.shape:
            return _unshaped_bytes(name, raw)
        raise RequestError(str(error), code=Code.INTERNAL) from None


def _unshaped_bytes(name: str, raw: bytes) -> Tensor:
    """Return BYTES without a given shape: packed elements, or else one element."""
    elements, at = [], 0
    while len(raw) - at >= 4:
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        elements.append(raw[at + 4 : end])
        at = end
    return _bytes(name, elements if elements and at == len(raw) else [raw])


def _array(name: str, array: Any, declared: Datatype | None) -> Tensor:
    dtype = array.dtype
    if (declared is Datatype.BF16 or dtype.metadata) and dtype == Datatype.BF16.dtype:
        return Tensor(name, Datatype.BF16, array)
    datatype = _NUMBERS.get(dtype)
    if datatype is not None:
        return Tensor(name, datatype, array)
    try:
        return Tensor.of(name, array)
    except ValueError as error:
        raise _bad(name, f"an array that is no tensor: {error}") from None


def _scalar(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _array(name, np.asarray(value).reshape(1), declared)


def _plain(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _list(name, [value], None)


def _text(name: str, value: Any, declared: Datatype | None) -> Tensor:
    return _bytes(name, [value.encode("utf-8", "replace") if isinstance(value, str) else value])


def _bytes(name: str, elements: list[bytes]) -> Tensor:
    data = np.empty(len(elements), object)
    data[:] = elements
    return Tensor(name, Datatype.BYTES, data)


def _list(name: str, values: Any, declared: Datatype | None) -> Tensor:
    if not values:
        datatype = declared or Datatype.FP64
        return Tensor(name, datatype, np.empty(0, datatype.dtype))
    if isinstance(values[0], np.ndarray):
        if len(values) != 1:
            raise _bad(name, f"a list of {len(values)} arrays; one tensor can be sent")
        return _array(name, values[0], declared)
    try:
        array = np.array(values, object if isinstance(values[0], str | bytes) else None)
        if array.dtype.kind in "SU":
            # NumPy's bytes lose trailing zeros.
            array = np.array(values, object)
        return Tensor.of(name, array)
    except (ValueError, OverflowError) as error:
        raise _bad(name, f"a list that is no tensor: {error}") from None


def _image(name: str, frame: Any, declared: Datatype | None) -> Tensor:
    return _array(name, frame.pixels, None)


def _renamed(name: str, tensor: Any, declared: Datatype | None) -> AnyTensor:
    renamed: AnyTensor = dataclasses.replace(tensor, name=name)
    return renamed


def _bad(name: str, what: str) -> RequestError:
    return RequestError(f"output {quoted(name)}: the graph gave {what}", code=Code.INTERNAL)


_BY_TYPE: Final[dict[type, Callable[[str, Any, Datatype | None], AnyTensor]]] = {
    pyovms.Tensor: _python,
    np.ndarray: _array,
    np.generic: _scalar,
    str: _text,
    bytes: _text,
    **{base: _plain for base in PLAIN if base not in (str, bytes)},
    list: _list,
    ImageFrame: _image,
    Tensor: _renamed,
    CustomTensor: _renamed,
}
