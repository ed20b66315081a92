"""Conversion of requests to the inputs of a plain model, and of its outputs to answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Tensor,
)
from calculators.tensors.inference.place import place_of, quoted, shown_shape
from calculators.tensors.openvino.dimension import Dimension
from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.tensor_spec import TensorSpec
from servers.contract.data_plane import TensorMetadata
from servers.serving.models.encoded_images import images_of, takes_images
from servers.serving.models.tensor_datatypes import datatype_of

Array = NDArray[Any]

#: Triton's parameter: mark the last answer.
_ASKED_FOR_FINAL = "triton_enable_empty_final_response"
_FINAL = "triton_final_response"


def metadata_of(spec: TensorSpec) -> TensorMetadata:
    """Return the metadata of a tensor."""
    shape = () if spec.shape is None else tuple(map(_length, spec.shape))
    return TensorMetadata(spec.name, datatype_of(spec), shape)


async def decoded_images(request: InferRequest, model: Model) -> dict[int, Array]:
    """Return the arrays of inputs whose tensors have encoded images, by their place.

    Raises:
        RequestError: they are no images, or do not fit the input.
        GraphError: OpenCV is not installed.
    """
    specs = {name: spec for spec in model.inputs for name in spec.names}
    found: dict[int, Array] = {}
    taken: set[str] = set()
    for index, tensor in enumerate(request.inputs):
        spec = specs.get(tensor.name)
        if spec is None or spec.name in taken:
            continue  # `arrays_of` refuses it
        taken.add(spec.name)
        if isinstance(tensor, Tensor) and tensor.datatype is Datatype.BYTES and takes_images(spec):
            place = place_of("inputs", index, tensor.name)
            found[index] = await images_of(tensor, spec, place)
    return found


def arrays_of(
    request: InferRequest, model: Model, images: Mapping[int, Array] = MappingProxyType({})
) -> list[Array]:
    """Return the arrays for `Model.infer_checked`.

    Args:
        images: the result of `decoded_images`.

    Raises:
        RequestError: an input is missing, unknown, given under two of its names, has another
            datatype or shape, or numbers with which the device cannot compute.
    """
    specs = {name: spec for spec in model.inputs for name in spec.names}
    arrays: dict[str, Array] = {}
    for index, tensor in enumerate(request.inputs):
        place = place_of("inputs", index, tensor.name)
        spec = specs.get(tensor.name)
        if spec is None:
            raise RequestError(
                f"{place}: the model has no such input; its inputs are {_names(model.inputs)}",
                param=f"inputs[{index}].name",
            )
        if spec.name in arrays:
            raise RequestError(f"{place}: another input of the request is the same tensor")
        image = images.get(index)
        arrays[spec.name] = _array_of(tensor, spec, place) if image is None else image
    missing = [spec for spec in model.inputs if spec.name not in arrays]
    if missing:
        raise RequestError(f"the model needs the inputs {_names(missing)} too", param="inputs")
    return [arrays[spec.name] for spec in model.inputs]


def wanted_outputs(request: InferRequest, model: Model) -> list[tuple[str, int]]:
    """Return the places of the requested outputs, with the names that the client uses.

    Raises:
        RequestError: the model has no such output.
    """
    if not request.requested_outputs:
        return [(spec.name, place) for place, spec in enumerate(model.outputs)]
    places = {name: place for place, spec in enumerate(model.outputs) for name in spec.names}
    for index, wanted in enumerate(request.requested_outputs):
        if wanted.name not in places:
            raise RequestError(
                f"{place_of('outputs', index, wanted.name)}: the model has no such output; its "
                f"outputs are {_names(model.outputs)}",
                param=f"outputs[{index}].name",
            )
    return [(wanted.name, places[wanted.name]) for wanted in request.requested_outputs]


def response_of(
    request: InferRequest,
    model: Model,
    wanted: Sequence[tuple[str, int]],
    arrays: Sequence[Array],
) -> InferResponse:
    """Return the answer to a request.

    ``wanted``: see `wanted_outputs`; ``arrays``: all outputs, in the model's order.
    """
    return InferResponse(
        model.name,
        str(model.version),
        request.id,
        {_FINAL: True} if request.parameters.get(_ASKED_FOR_FINAL) is True else {},
        tuple([_tensor(name, model.outputs[place], arrays[place]) for name, place in wanted]),
    )


def _array_of(tensor: Tensor | CustomTensor, spec: TensorSpec, place: str) -> Array:
    expected = datatype_of(spec)
    if isinstance(tensor, CustomTensor) and tensor.defect:
        raise RequestError(tensor.defect)
    if isinstance(tensor, CustomTensor) or tensor.datatype != expected:
        raise RequestError(f"{place}: the datatype is {_cut(tensor.datatype)}, not {expected}")
    shape = spec.shape
    if shape is not None and not (
        len(shape) == len(tensor.shape)
        and all(each.allows(length) for each, length in zip(shape, tensor.shape, strict=True))
    ):
        raise RequestError(
            f"{place}: the shape is {shown_shape(tensor.shape)}, not "
            f"{shown_shape([_shown(each) for each in shape])}"
        )
    array = tensor.data.astype(spec.dtype, copy=False)
    refusal = spec.refusal_of_numbers(array)
    if refusal:
        raise RequestError(f"{place}: {refusal}")
    return array


def _tensor(name: str, spec: TensorSpec, array: Array) -> Tensor:
    datatype = datatype_of(spec)
    return Tensor(name, datatype, array.astype(datatype.dtype, copy=False))


def _length(dimension: Dimension) -> int:
    return dimension.low if dimension.low == dimension.high else -1


def _shown(dimension: Dimension) -> str:
    if dimension.high is None:
        return "-1" if dimension.low <= 1 else str(dimension)
    return str(dimension)


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(quoted(spec.name) for spec in specs)


def _cut(datatype: str) -> str:
    return str(datatype) if datatype in list(Datatype) else quoted(datatype)
