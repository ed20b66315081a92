"""Conversion of requests to the inputs of a plain model, and of its outputs to answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calculators.images.image.decoding_turns import LARGE_PIXELS, decode_in_turn, pixels_in
from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_frame import ImageError
from calculators.images.image.opencv import opencv
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    CustomTensor,
    Datatype,
    InferRequest,
    InferResponse,
    Tensor,
    place_of,
    quoted,
    shown_shape,
)
from calculators.tensors.openvino.model import Model, TensorSpec
from calculators.tensors.openvino.model_settings import Dimension
from servers.contract.data_plane import TensorMetadata

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
    "string": Datatype.BYTES,
}


def datatype_of(spec: TensorSpec) -> Datatype:
    """Return the datatype of a tensor. There is one for every type of a `TensorSpec`."""
    return _DATATYPES[spec.element_type]


#: Element types that hold numbers from 0 to 255. For bf16, NumPy would only have the bits.
_TYPES: Final = frozenset({"u8", "u16", "u32", "u64", "i16", "i32", "i64", "f16", "f32", "f64"})
_CHANNELS: Final = (1, 3)
#: The most bytes of all images of one input after resizing.
_MOST_ELEMENTS: Final = 200_000_000


def takes_images(spec: TensorSpec) -> bool:
    """Return True if an input takes images in the layout NHWC, with one channel or three."""
    shape = spec.shape
    return (
        shape is not None
        and len(shape) == 4
        and any(shape[3] == Dimension(count, count) for count in _CHANNELS)
        and spec.element_type in _TYPES
    )


async def images_of(tensor: Tensor, spec: TensorSpec, place: str) -> Array:
    """Decode the images of a BYTES tensor, one per element, into the model's input.

    Each image is resized to the model's height and width, or to the nearest allowed ones if they
    may vary. Channels are in the order blue, green, red, with values from 0 to 255, as in OpenVINO
    Model Server. Small images are decoded together; large ones take turns with other requests'.

    Raises:
        RequestError: an element is not an image, or the images do not fit the model or each other.
        GraphError: OpenCV is not installed.
    """
    assert spec.shape is not None, "takes_images was asked"
    count = spec.shape[0]
    if len(tensor.shape) != 1 or not count.allows(tensor.shape[0]) or not tensor.shape[0]:
        raise RequestError(
            f"{place}: the shape is {shown_shape(tensor.shape)}; encoded images have the shape "
            f"[{'-1' if count.high is None else count}], the number of images"
        )
    images: list[Array] = []
    pixels = 0
    first = 0
    for index, content in enumerate(tensor.data):
        more = pixels_in(content)
        if index > first and pixels + more > LARGE_PIXELS:
            decode = partial(_decode, tensor, range(first, index), spec, place, images)
            await decode_in_turn(decode, pixels)
            first, pixels = index, 0
        pixels += more
    last = range(first, len(tensor.data))
    await decode_in_turn(partial(_decode, tensor, last, spec, place, images), pixels)
    return await asyncio.to_thread(lambda: np.stack(images).astype(spec.dtype, copy=False))


def _decode(
    tensor: Tensor, indices: range, spec: TensorSpec, place: str, images: list[Array]
) -> None:
    """Add images of some elements to ``images``, resized."""
    assert spec.shape is not None
    _, height, width, channels = spec.shape
    for index in indices:
        try:
            image = _pixels(tensor.data[index], channels.low)
        except ImageError as error:
            raise RequestError(f"{place}: element {index}: {error}") from None
        size = (_nearest(width, image.shape[1]), _nearest(height, image.shape[0]))
        if size[0] * size[1] * channels.low * len(tensor.data) > _MOST_ELEMENTS:
            raise RequestError(f"{place}: the images are too large")
        # OpenCV drops the dimension of a single channel.
        image = opencv().resize(image, size).reshape(size[1], size[0], channels.low)
        if images and images[0].shape != image.shape:
            raise RequestError(
                f"{place}: element {index} is {size[0]}x{size[1]} pixels, and element 0 is not; "
                f"images of one request must have one size"
            )
        images.append(image)


def _pixels(content: bytes, channels: int) -> Array:
    """Return 8-bit pixels of shape (height, width) or (height, width, 3).

    Raises:
        ImageError: the content is neither JPEG nor PNG, or is damaged or too large.
    """
    cv2 = opencv()
    pixels = decode_image(content).pixels
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    if channels == 1:
        return np.asarray(
            cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.shape[2] == 3 else pixels
        )
    turn = cv2.COLOR_RGB2BGR if pixels.shape[2] == 3 else cv2.COLOR_GRAY2BGR
    return np.asarray(cv2.cvtColor(pixels, turn))


def _nearest(allowed: Dimension, length: int) -> int:
    if length < allowed.low:
        return allowed.low
    return length if allowed.high is None else min(length, allowed.high)


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
        RequestError: they are not images, or do not fit the input.
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
    request: InferRequest,
    model: Model,
    images: Mapping[int, Array] = MappingProxyType({}),
    *,
    ignores_others: bool = False,
) -> list[Array]:
    """Return the arrays for `Model.infer_checked`.

    Args:
        images: the result of `decoded_images`.
        ignores_others: leave out inputs that the model does not have.

    Raises:
        RequestError: an input is missing, unknown, given under two of its names, has another
            datatype or shape, or numbers with which the device cannot compute.
    """
    specs = {name: spec for spec in model.inputs for name in spec.names}
    arrays: dict[str, Array] = {}
    for index, tensor in enumerate(request.inputs):
        place = place_of("inputs", index, tensor.name)
        spec = specs.get(tensor.name)
        if spec is None and ignores_others:
            continue
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
