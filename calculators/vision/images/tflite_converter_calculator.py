"""TfLiteConverterCalculator: images as tensors, in old graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import TENSORS, check_image_tags
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.TfLiteConverterCalculatorOptions"


class TfLiteConverterCalculator(Calculator):
    """Makes a tensor (1, height, width, channels) of each image.

    Inputs: IMAGE (`ImageFrame`): of 8 bits per channel or of float32.
    Outputs: TENSORS (list of one numpy.ndarray): float32, or uint8 with use_quantized_tensors.
    Options (mediapipe.TfLiteConverterCalculatorOptions):
        zero_center: pixels become -1 to 1, the default, rather than 0 to 1.
        output_tensor_float_range: min and max, in place of that.
        use_custom_normalization, custom_div, custom_sub: (x - custom_sub) / custom_div.
        max_num_channels: default 3.
        flip_vertically: the last row first.
        use_quantized_tensors: pixels stay as they are.

    ::

        node {
          calculator: "TfLiteConverterCalculator"
          input_stream: "IMAGE:eye"
          output_stream: "TENSORS:tensors"
          options {
            [mediapipe.TfLiteConverterCalculatorOptions.ext] { zero_center: false }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_converter_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.outputs["TENSORS"].set(TENSORS)
        channels = contract.options(_OPTIONS).max_num_channels
        contract.require(1 <= channels <= 4, f"max_num_channels is 1 to 4, not {channels}")
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = cc.inputs["IMAGE"].value
        pixels = frame.pixels[:, :, : self.options.max_num_channels]
        if self.options.flip_vertically:
            pixels = pixels[::-1]
        tensor = self._values(pixels)
        cc.outputs["TENSORS"].add([np.ascontiguousarray(tensor[np.newaxis])], cc.time)

    def _values(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        options = self.options
        if options.use_quantized_tensors:
            if pixels.dtype != np.uint8:
                raise GraphError(
                    "use_quantized_tensors needs an image of 8 bits", code=Code.INVALID_ARGUMENT
                )
            return pixels
        values = pixels.astype(np.float32)
        if pixels.dtype == np.float32:
            return values * 2 - 1 if options.zero_center else values
        low, high = (-1.0, 1.0) if options.zero_center else (0.0, 1.0)
        if options.HasField("output_tensor_float_range"):
            low, high = options.output_tensor_float_range.min, options.output_tensor_float_range.max
        elif options.use_custom_normalization:
            low = -options.custom_sub
            high = low + 255 / options.custom_div
        return values * np.float32((high - low) / 255) + np.float32(low)
