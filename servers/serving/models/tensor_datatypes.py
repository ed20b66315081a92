"""KServe's datatypes for OpenVINO's element types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calculators.tensors.inference import Datatype
from calculators.tensors.openvino.tensor_spec import TensorSpec

_DATATYPES: Final[Mapping[str, Datatype]] = {
    "boolean": Datatype.BOOL,
    "u8": Datatype.UINT8,
    "u16": Datatype.UINT16,
    "u32": Datatype.UINT32,
    "u64": Datatype.UINT64,
    "i8": Datatype.INT8,
    "i16": Datatype.INT16,
    "i32": Datatype.INT32,
    "i64": Datatype.INT64,
    "f16": Datatype.FP16,
    "f32": Datatype.FP32,
    "f64": Datatype.FP64,
    "bf16": Datatype.BF16,
}


def datatype_of(spec: TensorSpec) -> Datatype:
    """Return the datatype of a tensor. There is one for every type of a `TensorSpec`."""
    return _DATATYPES[spec.element_type]
