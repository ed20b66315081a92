"""OpenCvEncodedImageToImageFrameCalculator: from a JPEG or PNG to an image."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from calculators.images.image.decoding_turns import frame_in_turn, pixels_in
from calculators.images.image.encoded_image import decode_image
from calculators.images.image.image_error import ImageError
from calculators.images.image.image_frame import ImageFrame
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options


class OpenCvEncodedImageToImageFrameCalculator(Calculator):
    """Decodes images in a thread, while the event loop goes on.

    An image with alpha, which only a PNG has, keeps it as SRGBA unless EXIF data is applied. PNGs
    of 16 bits become GRAY16, SRGB48 or SRGBA64; MediaPipe takes all images for 8 bits.

    Inputs: #0: a JPEG or PNG: bytes, or a tensor of one BYTES element, or of UINT8 with one
        dimension. At most 20 MB and 40 million pixels.
    Outputs: #0: `ImageFrame`.
    Options (mediapipe.OpenCvEncodedImageToImageFrameCalculatorOptions):
        apply_orientation_from_exif_data: turn the image as its EXIF data says; default false.

    ::

        node {
          calculator: "OpenCvEncodedImageToImageFrameCalculator"
          input_stream: "encoded_image"
          output_stream: "image"
        }

    Source: MediaPipe
    ``calculators/images/image/opencv_encoded_image_to_image_frame_calculator.cc``.
    """

    options = Options("mediapipe.OpenCvEncodedImageToImageFrameCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs[0].set_one_of(bytes, np.ndarray)
        contract.outputs[0].set(ImageFrame)

    async def process(self, cc: CalculatorContext) -> None:
        content = _content(cc.inputs[0].value)
        decode = partial(
            decode_image,
            content,
            apply_orientation=self.options.apply_orientation_from_exif_data,
        )
        frame = await frame_in_turn(decode, pixels_in(content))
        cc.outputs[0].add(frame, cc.time)


def _content(value: Any) -> bytes | memoryview:
    if isinstance(value, bytes):
        return value
    if value.dtype == object and value.size == 1 and isinstance(value.item(), bytes):
        content: bytes = value.item()
        return content
    if value.dtype == np.uint8 and value.ndim == 1:
        return np.ascontiguousarray(value).data
    raise ImageError(
        f"an encoded image is bytes, one BYTES element, or UINT8 of one dimension; this is a "
        f"tensor of {value.dtype} with the shape {tuple(value.shape[:8])}"
    )
