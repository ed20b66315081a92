"""The module ``pyovms`` of OpenVINO Model Server, for handlers: ``from pyovms import Tensor``.

It gets that name in ``sys.modules`` when a handler is loaded
(`calculators.tensors.python.handler`)
and is not a top-level module of the wheel: the name is OpenVINO Model Server's, and a second owner
of it in site-packages would silently overwrite files. Tests of a handler outside a server use
``from calculators.tensors.python.pyovms import Tensor``, or call
`calculators.tensors.python.handler.offer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

#: NumPy's type of each of KServe's element types that a buffer can hold.
DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "BOOL": np.dtype(np.bool_),
        "UINT8": np.dtype(np.uint8),
        "UINT16": np.dtype(np.uint16),
        "UINT32": np.dtype(np.uint32),
        "UINT64": np.dtype(np.uint64),
        "INT8": np.dtype(np.int8),
        "INT16": np.dtype(np.int16),
        "INT32": np.dtype(np.int32),
        "INT64": np.dtype(np.int64),
        "FP16": np.dtype(np.float16),
        "FP32": np.dtype(np.float32),
        "FP64": np.dtype(np.float64),
    }
)
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_NOT_GIVEN: Any = object()


class Tensor(np.ndarray[Any, np.dtype[Any]]):
    """Data with a name, a shape and a datatype; read-only, and not a copy.

    ``shape`` and ``datatype`` default to the data's. Other values describe the data for the
    next node or the client and do not change it. ``bytes(tensor)``, ``memoryview(tensor)``,
    ``numpy.array(tensor)`` and all other readers of buffers see the data itself.

    It derives from a NumPy array only because before Python 3.12 no other base class has the buffer
    protocol. Results of computations on it are plain arrays, without a name.

    Attributes:
        name: name of the stream that it came from or goes to.
        datatype: KServe's name of the element type if there is one, else the format character of
            the buffer, else the given name, such as "BYTES".
        ref_obj: the object that it was made of.

    Raises:
        TypeError: the data does not support the buffer protocol.

    Source: OpenVINO Model Server ``src/python/binding/ovms_py_tensor.cpp``.
    """

    name: str
    datatype: str
    ref_obj: object
    _given_shape: tuple[int, ...] | None

    def __new__(
        cls,
        name: str,
        data: Any = _NOT_GIVEN,
        shape: Sequence[int] | None = None,
        datatype: str | None = None,
        *,
        buffer: Any = _NOT_GIVEN,
    ) -> Tensor:
        # The documentation calls it ``data``, the binding itself ``buffer``; handlers use both.
        source = buffer if data is _NOT_GIVEN else data
        if not isinstance(name, str):
            raise TypeError(f"the name of a Tensor is a str, not {type(name).__name__}")
        if source is _NOT_GIVEN:
            raise TypeError(f'Tensor("{name}") needs data: bytes, a NumPy array or another buffer')
        try:
            view = memoryview(source)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f'Tensor("{name}") needs data with the buffer protocol, such as bytes or a NumPy '
                f"array: {error}"
            ) from None
        self = np.asarray(view).view(cls)
        self.flags.writeable = False
        self.name = name
        self.ref_obj = source
        self.datatype = datatype or _NAMES.get(self.dtype, view.format)
        self._given_shape = None if shape is None else tuple(int(size) for size in shape)
        return self

    @classmethod
    def of_request(cls, name: str, data: Any, shape: Sequence[int], datatype: str) -> Tensor:
        """A client's tensor: ``data`` is a buffer of bytes, ``datatype`` KServe's or any name.

        Bytes of a known numeric datatype get its type and the shape; bytes of "BYTES" and of
        unknown datatypes stay bytes, in one dimension.

        Raises:
            ValueError: the number of bytes does not match type and shape.
        """
        raw = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
        dtype = DTYPES.get(datatype)
        if dtype is None:
            return cls(name, raw, shape, datatype)
        try:
            return cls(name, raw.view(dtype).reshape(tuple(shape)), None, datatype)
        except ValueError:
            raise ValueError(
                f'the tensor "{name}" has {raw.nbytes} bytes, which is not what {datatype} of '
                f"shape {list(shape)} takes"
            ) from None

    def __array_finalize__(self, source: object) -> None:
        # Slices and copies, which have no name, get here too.
        self.name = ""
        self.ref_obj = None
        self.datatype = _NAMES.get(self.dtype, self.dtype.char)
        self._given_shape = None

    def __array_wrap__(
        self, array: Any, context: object = None, return_scalar: bool = False
    ) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    @property  # type: ignore[misc]
    def shape(self) -> tuple[int, ...]:
        """The declared shape, else that of the data."""
        return super().shape if self._given_shape is None else self._given_shape

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.nbytes

    @property
    def ptr(self) -> int:
        """The address of the data."""
        return int(self.ctypes.data)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, datatype={self.datatype!r}, shape={self.shape})"

    __str__ = __repr__
