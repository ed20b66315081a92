"""OpenCvImageEncoderCalculator: from an image to a JPEG."""

from __future__ import annotations

import asyncio

from calculators.images.image.encoded_image import encode_image
from calculators.images.image.image_error import ImageError
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import message
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

# OpenCvImageEncoderCalculatorResults.ColorSpace, by channels
_COLORSPACES = {1: 1, 3: 2}


class OpenCvImageEncoderCalculator(Calculator):
    """Encodes images in a thread, while the event loop goes on.

    Inputs: #0 (`ImageFrame`): GRAY8 or three channels of 8 bits.
    Outputs: #0: mediapipe.OpenCvImageEncoderCalculatorResults: the JPEG, its size and colour space.
    Options (mediapipe.OpenCvImageEncoderCalculatorOptions):
        quality: 1 to 100. As in MediaPipe it has no default, and is 0 when not given.

    ::

        node {
          calculator: "OpenCvImageEncoderCalculator"
          input_stream: "image"
          output_stream: "encoded_image"
          options { [mediapipe.OpenCvImageEncoderCalculatorOptions.ext] { quality: 80 } }
        }

    Source: MediaPipe ``calculators/images/image/opencv_image_encoder_calculator.cc``.
    """

    options = Options("mediapipe.OpenCvImageEncoderCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs[0].set(ImageFrame)
        contract.outputs[0].set(message("OpenCvImageEncoderCalculatorResults"))

    async def process(self, cc: CalculatorContext) -> None:
        frame: ImageFrame = cc.inputs[0].value
        colorspace = _COLORSPACES.get(frame.channels)
        if colorspace is None or frame.byte_depth != 1:
            raise ImageError(
                f"an image of the format {frame.image_format.name} cannot be encoded; it has to "
                f"have 1 or 3 channels of 8 bits"
            )
        content = await asyncio.to_thread(encode_image, frame, quality=self.options.quality)
        results = message("OpenCvImageEncoderCalculatorResults")
        found = results(
            encoded_image=content, height=frame.height, width=frame.width, colorspace=colorspace
        )
        cc.outputs[0].add(found, cc.time)
