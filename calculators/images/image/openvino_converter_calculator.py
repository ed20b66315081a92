"""OpenVINOConverterCalculator: an image as a tensor for OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import TENSORS, check_image_tags
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.OpenVINOConverterCalculatorOptions"


class OpenVINOConverterCalculator(Calculator):
    """Makes a tensor of shape (1, height, width, channels) of each image.

    As in OpenVINO Model Server the image goes as it is, its elements' type included, unless
    ``enable_normalization`` is set together with ``zero_center``, a range or custom numbers; the
    other options count only then.

    Inputs: IMAGE (`ImageFrame`): elements of uint8 or float32, without normalization also uint16.
    Outputs: TENSORS (list of one numpy.ndarray): float32, or of the image's type.
    Options (mediapipe.OpenVINOConverterCalculatorOptions):
        enable_normalization: make float32 of the image, by one of the following.
        zero_center: 0 to 255 becomes -1 to 1; default true.
        output_tensor_float_range: 0 becomes ``min`` and 255 becomes ``max``.
        use_custom_normalization: value / ``custom_div`` - ``custom_sub``.
        flip_vertically: the last row comes first.
        max_num_channels: further channels, such as alpha, are left out: 1, 3 or 4; default 3.

    ::

        node {
          calculator: "OpenVINOConverterCalculator"
          input_stream: "IMAGE:image"
          output_stream: "TENSORS:tensors"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOConverterCalculatorOptions] {
              enable_normalization: true
            }
          }
        }

    Source: OpenVINO's fork of MediaPipe,
    ``calculators/tensors/openvino/openvino_converter_calculator.cc``.
    """

    options = Options(_OPTIONS)
    input_stream_handler = "FixedSizeInputStreamHandler"

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        options = contract.options(_OPTIONS)
        contract.require(
            options.max_num_channels in (1, 3, 4),
            f"max_num_channels is 1, 3 or 4, not {options.max_num_channels}",
        )
        limits = options.output_tensor_float_range
        contract.require(
            not options.HasField("output_tensor_float_range") or limits.max > limits.min,
            f"output_tensor_float_range: max, {limits.max}, must be greater than min, {limits.min}",
        )
        contract.require(
            not options.use_custom_normalization or options.custom_div != 0,
            "custom_div is what values are divided by; it cannot be 0",
        )
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.outputs["TENSORS"].set(TENSORS)
        contract.input_stream_handler = cls.input_stream_handler
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._range = _range(self.options)

    def process(self, cc: CalculatorContext) -> None:
        shard = cc.inputs["IMAGE"]
        if not shard.is_empty():
            cc.outputs["TENSORS"].add([self._tensor(shard.value)], cc.time)

    def _tensor(self, frame: ImageFrame) -> npt.NDArray[Any]:
        pixels = frame.pixels
        if self._range is None:
            return pixels[np.newaxis]
        if frame.byte_depth == 2:
            raise ImageError(
                f"an image of the format {frame.image_format.name} cannot be normalized; its "
                f"elements have to be of 8 bits, or float32"
            )
        low, high = self._range
        pixels = pixels[:: -1 if self.options.flip_vertically else 1]
        kept = pixels[:, :, : self.options.max_num_channels]
        scaled = kept.astype(np.float32) * ((high - low) / np.float32(255)) + low
        return np.ascontiguousarray(scaled[np.newaxis], np.float32)


def _range(options: Any) -> tuple[np.float32, np.float32] | None:
    """The values of 0 and 255 in the tensor; None to leave the image unchanged."""
    if not options.enable_normalization:
        return None
    if options.use_custom_normalization:
        low = np.float32(-options.custom_sub)
        return low, np.float32(-options.custom_sub + 255.0 / options.custom_div)
    if options.HasField("output_tensor_float_range"):
        limits = options.output_tensor_float_range
        return np.float32(limits.min), np.float32(limits.max)
    return (np.float32(-1), np.float32(1)) if options.zero_center else None
