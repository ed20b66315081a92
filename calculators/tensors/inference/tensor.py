"""A tensor with a name: the input and output of an inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calculators.tensors.inference.datatype import Datatype
from calculators.tensors.inference.parameter import Parameters

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor. Its shape is that of its array.

    Attributes:
        data: of the type ``datatype.dtype``: for BF16 the bits of each number, for BYTES objects,
            each a ``bytes``. A client's data is read-only, and a view of the received bytes if
            possible.

    Raises:
        ValueError: ``data`` has another type.
    """

    name: str
    datatype: Datatype
    data: NDArray[Any]
    parameters: Parameters = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        dtype = self.datatype.dtype
        # Numpy has most types once, and takes longer to compare them.
        if self.data.dtype is not dtype and self.data.dtype != dtype:
            raise ValueError(
                f'the data of the {self.datatype} tensor "{self.name}" has the type'
                f" {self.data.dtype}; it must be {dtype}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension; empty for a single element."""
        return self.data.shape

    @classmethod
    def of(cls, name: str, array: NDArray[Any], parameters: Parameters = _NONE) -> Tensor:
        """Make a tensor of an array, with the datatype of its elements.

        An array of texts, or of objects each of which is ``bytes`` or ``str``, becomes BYTES; texts
        are UTF-8 there.

        Raises:
            ValueError: KServe has no datatype for the elements.
        """
        datatype = Datatype.of(array.dtype)
        if datatype == Datatype.BYTES:
            data = np.empty(array.shape, dtype=object)
            for at, element in enumerate(array.flat):
                data.flat[at] = _bytes_of(element, name)
        else:
            data = array.astype(datatype.dtype, copy=False)
        return cls(name, datatype, data, parameters)


@dataclass(frozen=True, slots=True, eq=False)
class CustomTensor:
    """A tensor that only its two ends understand, by its datatype or by its data.

    OpenVINO Model Server passes such tensors to Python nodes. Its own clients send a text as BYTES
    without a length prefix.

    Attributes:
        datatype: any word that is not a `Datatype`; or BYTES, with a ``defect``.
        data: the bytes of the tensor as on the wire.
        defect: why the bytes are not elements of BYTES, with the place in the request.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview
    parameters: Parameters = field(default_factory=lambda: _NONE)
    defect: str = ""


def _bytes_of(element: object, name: str) -> bytes:
    if isinstance(element, bytes):
        return bytes(element)
    if isinstance(element, str):
        return element.encode()
    raise ValueError(
        f'an element of the tensor "{name}" is a {type(element).__name__}; an array of objects'
        " can have bytes and str"
    )
