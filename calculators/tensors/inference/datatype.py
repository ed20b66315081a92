"""KServe's datatypes, and the numpy types that hold their elements."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.place import quoted


class Datatype(StrEnum):
    """The type of a tensor's elements. The text is the name on the wire."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array: little endian, as on the wire.

        BF16 has ``uint16``, the bits of each number, because numpy has no such float. BYTES has
        ``object``, each a ``bytes``.
        """
        return _DTYPES[self]

    @classmethod
    def named(cls, name: str, place: str) -> Datatype:
        """The datatype that a client names.

        Raises:
            RequestError: no such datatype; the text begins with ``place``.
        """
        found = _BY_NAME.get(name)
        if found is None:
            raise RequestError(
                f"{place}: unknown datatype {quoted(name)}; the datatypes are {', '.join(cls)}"
            )
        return found

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Datatype:
        """The datatype of an array's elements; BYTES for texts, bytes and objects.

        Raises:
            ValueError: KServe has no datatype for them, as for complex numbers.
        """
        if dtype.kind in "OSU":
            return cls.BYTES
        found = _BY_DTYPE.get(dtype.newbyteorder("<"))
        if found is None:
            raise ValueError(f"KServe has no datatype for numpy's {dtype}")
        return found


_DTYPES: Mapping[Datatype, np.dtype[Any]] = MappingProxyType(
    {
        Datatype.BOOL: np.dtype(np.bool_),
        Datatype.UINT8: np.dtype("<u1"),
        Datatype.UINT16: np.dtype("<u2"),
        Datatype.UINT32: np.dtype("<u4"),
        Datatype.UINT64: np.dtype("<u8"),
        Datatype.INT8: np.dtype("<i1"),
        Datatype.INT16: np.dtype("<i2"),
        Datatype.INT32: np.dtype("<i4"),
        Datatype.INT64: np.dtype("<i8"),
        Datatype.FP16: np.dtype("<f2"),
        Datatype.FP32: np.dtype("<f4"),
        Datatype.FP64: np.dtype("<f8"),
        Datatype.BF16: np.dtype("<u2"),
        Datatype.BYTES: np.dtype(object),
    }
)
_BY_NAME = {datatype.value: datatype for datatype in Datatype}
_BY_DTYPE = {dtype: datatype for datatype, dtype in _DTYPES.items() if datatype != Datatype.BF16}
