"""JPEG and PNG files as inputs of a model: OpenVINO Model Server's binary inputs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calculators.images.image.decoding_turns import LARGE_PIXELS, decode_in_turn, pixels_in
from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_error import ImageError
from calculators.images.image.opencv import opencv
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import Tensor
from calculators.tensors.inference.place import shown_shape
from calculators.tensors.openvino.dimension import Dimension
from calculators.tensors.openvino.tensor_spec import TensorSpec

Array = NDArray[Any]

#: Element types that hold numbers from 0 to 255. For bf16, NumPy would only have the bits.
_TYPES: Final = frozenset({"u8", "u16", "u32", "u64", "i16", "i32", "i64", "f16", "f32", "f64"})
_CHANNELS: Final = (1, 3)
#: The most bytes of all images of one input after resizing.
_MOST_ELEMENTS: Final = 200_000_000


def takes_images(spec: TensorSpec) -> bool:
    """True if an input takes images in the layout NHWC, with one channel or three."""
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
    Model Server. Small images are decoded together; large ones take turns with those of others.

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
