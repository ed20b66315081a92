"""Kinds of a graph's streams, by the type that ports declare, else by the stream's tag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

import numpy as np

from calculators.images.image.image_frame import ImageFrame
from calculators.tensors.inference import Datatype, InferRequest, InferResponse
from calculators.tensors.python import pyovms
from graph_runtime.authoring.packet_type import PacketType
from servers.contract.data_plane import TensorMetadata
from servers.serving.graph_inference.input_values import (
    AnyTensor,
    ArrayValue,
    FirstValue,
    NoValue,
    PlainValue,
    ValueOf,
    array_value,
    image_value,
    python_value,
)
from servers.serving.graph_inference.output_tensors import tensor_of
from servers.serving.graph_inference.tensor_type import TensorType, plain_type, tensor_type_of
from servers.serving.http_streams import ANSWERS, is_http_request, types_of

_REQUEST: Final = "REQUEST"
_RESPONSE: Final = "RESPONSE"
_IMAGE: Final = "IMAGE"
_PYTHON: Final = "OVMS_PY_TENSOR"
_ARRAYS: Final = ("OVTENSOR", "TENSOR", "TFTENSOR", "TFLITE_TENSOR")


@dataclass(frozen=True, slots=True)
class InputStream:
    """An input of a graph.

    Attributes:
        value_of: converts a tensor to a packet's value; raises `RequestError`.
        is_http: the input takes HTTP requests, not tensors.
        is_request: the input takes the `InferRequest` itself.
    """

    name: str
    value_of: ValueOf
    metadata: TensorMetadata
    is_http: bool = False
    is_request: bool = False


@dataclass(frozen=True, slots=True)
class OutputStream:
    """An output of a graph.

    Attributes:
        is_response: the packets are `InferResponse` objects.
        datatype: the declared datatype, or None.
    """

    name: str
    metadata: TensorMetadata
    is_response: bool = False
    datatype: Datatype | None = None

    def tensor_of(self, value: Any) -> AnyTensor:
        """Return the tensor for a packet's value; raise `RequestError` if it is no tensor."""
        return tensor_of(self.name, value, self.datatype)


def input_stream(
    name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> InputStream:
    """An input of the graph; ``known``: what a model says of it."""
    preferred = _class_of_tag(tag)
    specs = tuple(sorted(types_of(packet_type), key=lambda spec: _class_of(spec) is not preferred))
    is_http = is_http_request(tag, packet_type)
    if not specs:
        kind, declared = _kind_of_tag(tag)
        is_request = tag.startswith(_REQUEST) and not is_http
    else:
        kinds = [kind for kind in map(_kind_of_type, specs) if kind is not None]
        kind = FirstValue(kinds) if len(kinds) > 1 else next(iter(kinds), NoValue(packet_type.name))
        declared = tensor_type_of(specs[0])
        is_request = InferRequest in specs
    return InputStream(name, kind, _metadata(name, known or declared), is_http, is_request)


def output_stream(
    name: str, tag: str, packet_type: PacketType, known: TensorType | None
) -> OutputStream:
    """An output of the graph; ``known``: what a model says of it."""
    specs = types_of(packet_type)
    declared = tensor_type_of(specs[0]) if specs else _kind_of_tag(tag)[1]
    is_response = InferResponse in specs or (
        not specs and tag.startswith(_RESPONSE) and not tag.startswith(ANSWERS)
    )
    declared = known or declared
    return OutputStream(name, _metadata(name, declared), is_response, declared.datatype)


def _class_of(spec: Any) -> Any:
    return get_origin(spec) or spec


def _class_of_tag(tag: str) -> Any:
    """Return the type that the tag stands for, among several; None if it stands for none."""
    if tag.startswith(_IMAGE):
        return ImageFrame
    if tag.startswith(_PYTHON):
        return pyovms.Tensor
    return np.ndarray if tag.startswith(_ARRAYS) else None


def _kind_of_tag(tag: str) -> tuple[ValueOf, TensorType]:
    if tag.startswith(_IMAGE):
        return image_value, tensor_type_of(ImageFrame)
    if tag.startswith(_PYTHON):
        return python_value, TensorType()
    return array_value, TensorType()


def _kind_of_type(spec: Any) -> ValueOf | None:
    """Return the conversion of a tensor to this type; None if there is none."""
    declared = tensor_type_of(spec)
    plain = plain_type(spec)
    if plain is not None:
        return PlainValue(*plain, declared)
    if spec is ImageFrame:
        return image_value
    if spec is pyovms.Tensor:
        return python_value
    if _class_of(spec) is np.ndarray:
        return array_value if declared == TensorType() else ArrayValue(declared)
    if _class_of(spec) is list:
        (inner,) = get_args(spec) or (np.ndarray,)
        if _class_of(inner) is np.ndarray:
            return ArrayValue(tensor_type_of(inner), in_list=True)
    return None


def _metadata(name: str, declared: TensorType) -> TensorMetadata:
    return TensorMetadata(name, declared.datatype or "INVALID", declared.shape or ())
