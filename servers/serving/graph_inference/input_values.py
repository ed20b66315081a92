"""Conversion of clients' tensors to values of packets: a function or object per kind of value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_frame import ImageError, ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor
from calculators.tensors.inference.place import quoted, shown_shape
from calculators.tensors.inference.raw_data import to_raw
from calculators.tensors.python import pyovms
from servers.serving.graph_inference.tensor_type import PLAIN, TensorType

AnyTensor: TypeAlias = Tensor | CustomTensor
ValueOf: TypeAlias = Callable[[AnyTensor], Any]

#: The most elements of a list. Each becomes an object; this many take some 10 ms.
MAX_LIST: Final = 2**20

#: The dtype of BF16's bits, distinguished from 16-bit integers by its metadata.
BF16_BITS: Final[np.dtype[Any]] = np.dtype("<u2", metadata={"datatype": "BF16"})

_INTEGERS: Final = tuple(each for each in Datatype if each.startswith(("INT", "UINT")))
_FLOATS: Final = (Datatype.FP64, Datatype.FP32, Datatype.FP16)
_TAKEN: Final[dict[Any, tuple[Datatype, ...]]] = {
    **{base: (datatype,) for base, datatype in PLAIN.items()},
    int: (Datatype.INT64, *(each for each in _INTEGERS if each != Datatype.INT64)),
    float: _FLOATS,
}


def refused(tensor: AnyTensor, expected: object) -> RequestError:
    """Return the error for a tensor with a wrong datatype, shape or contents."""
    if isinstance(tensor, CustomTensor) and tensor.defect:
        return RequestError(tensor.defect)
    return RequestError(
        f"input {quoted(tensor.name)}: {expected} is expected, {quoted_datatype(tensor)} of the "
        f"shape {shown_shape(tensor.shape)} came"
    )


def quoted_datatype(tensor: AnyTensor) -> str:
    return tensor.datatype if isinstance(tensor, Tensor) else quoted(tensor.datatype)


def array_value(tensor: AnyTensor) -> Any:
    """Return the array, read-only: objects for BYTES, bits (`BF16_BITS`) for BF16.

    Raises:
        RequestError: the datatype is not one of KServe's.
    """
    if isinstance(tensor, CustomTensor):
        raise refused(tensor, "a tensor of a datatype of KServe")
    if tensor.datatype is Datatype.BF16:
        return tensor.data.view(BF16_BITS)
    return tensor.data


class ArrayValue:
    """`array_value` with the datatype or number of dimensions that the stream's type declares."""

    def __init__(self, expected: TensorType, *, in_list: bool = False) -> None:
        """``in_list``: packets are lists with one array."""
        self._expected = expected
        self._in_list = in_list

    def __call__(self, tensor: AnyTensor) -> Any:
        array = array_value(tensor)
        datatype, shape = self._expected.datatype, self._expected.shape
        if datatype is not None and array.dtype != datatype.dtype:
            raise refused(tensor, self._expected)
        if shape is not None and array.ndim != len(shape):
            raise refused(tensor, self._expected)
        return [array] if self._in_list else array


class PlainValue:
    """A ``str``, ``bytes``, ``bool``, ``int`` or ``float``, or nested lists of depth ``rank``.

    A single value is a tensor with one element and any number of dimensions.
    """

    def __init__(self, base: type, rank: int, expected: TensorType) -> None:
        self._base = base
        self._rank = rank
        self._taken = _TAKEN[base]
        shape = "" if expected.shape is None else f" of the shape {shown_shape(expected.shape)}"
        self._expected = f"{', '.join(self._taken[:-1])}{' or ' * (len(self._taken) > 1)}"
        self._expected += f"{self._taken[-1]}{shape}"

    def __call__(self, tensor: AnyTensor) -> Any:
        if isinstance(tensor, CustomTensor) or tensor.datatype not in self._taken:
            raise refused(tensor, self._expected)
        data = tensor.data
        if self._rank == 0:
            if data.size != 1:
                raise refused(tensor, self._expected)
            value = data.item()
        else:
            if data.ndim != self._rank:
                raise refused(tensor, self._expected)
            if data.size > MAX_LIST:
                raise RequestError(
                    f"input {quoted(tensor.name)}: at most {MAX_LIST} elements are taken, "
                    f"{data.size} came"
                )
            value = data.tolist()
        return _texts_of(tensor.name, value) if self._base is str else value


def _texts_of(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_texts_of(name, each) for each in value]
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RequestError(f"input {quoted(name)}: the text is not UTF-8") from None


def python_value(tensor: AnyTensor) -> Any:
    """Return a `pyovms.Tensor`, a view of the data. Elements of BYTES follow their lengths."""
    raw = to_raw(tensor) if isinstance(tensor, Tensor) else tensor.data
    return pyovms.Tensor.of_request(tensor.name, raw, tensor.shape, str(tensor.datatype))


def image_value(tensor: AnyTensor) -> Any:
    """Return an `ImageFrame` for numbers of shape (height, width, channels) or an encoded image.

    Raises:
        RequestError: the tensor is not an image; the text says what would be one.
    """
    if isinstance(tensor, CustomTensor):
        raise refused(tensor, "an image")
    try:
        if tensor.datatype is Datatype.BYTES:
            if tensor.data.size != 1:
                raise ImageError(
                    f"BYTES with one element, a JPEG or PNG, is expected; {tensor.data.size} came"
                )
            return decode_image(tensor.data.item())
        if tensor.datatype is Datatype.BF16:
            raise ImageError("an image cannot be BF16")
        return ImageFrame.of_tensor(tensor.data)
    except ImageError as error:
        raise RequestError(f"input {quoted(tensor.name)}: {error}") from None


class FirstValue:
    """The value of the first of several kinds that accepts the tensor."""

    def __init__(self, kinds: Sequence[ValueOf]) -> None:
        self._kinds = kinds
        self.takes_images = image_value in kinds

    def __call__(self, tensor: AnyTensor) -> Any:
        errors: list[RequestError] = []
        for kind in self._kinds:
            try:
                return kind(tensor)
            except RequestError as error:
                errors.append(error)
        raise errors[0]


def takes_images(value_of: ValueOf) -> bool:
    """Return whether a function decodes images: it is slow then, and for a thread."""
    return value_of is image_value or (isinstance(value_of, FirstValue) and value_of.takes_images)


class NoValue:
    """Refuses every tensor, for streams whose packets cannot be made from tensors."""

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name

    def __call__(self, tensor: AnyTensor) -> Any:
        raise RequestError(
            f"input {quoted(tensor.name)}: the stream carries {self._type_name}, which no tensor "
            f"can be"
        )
