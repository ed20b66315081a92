"""TfLite calculators of old graphs: images as tensors, tensors as detections and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.detector_output import FixedOrderDetector
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import TENSORS, check_image_tags
from calculators.images.image.scaling import check_size
from calculators.vision.landmarks.scores_calculators import first_tensor, send_floats
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

_CONVERTER_OPTIONS = messages.TfLiteConverterCalculatorOptions


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

    options = Options(_CONVERTER_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.outputs["TENSORS"].set(TENSORS)
        channels = contract.options(_CONVERTER_OPTIONS).max_num_channels
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


_DETECTIONS_OPTIONS = messages.TfLiteTensorsToDetectionsCalculatorOptions


class TfLiteTensorsToDetectionsCalculator(FixedOrderDetector):
    """Makes detections of the tensors of a model, as `TensorsToDetectionsCalculator`.

    Inputs: TENSORS (list of numpy.ndarray): float32: raw boxes, scores and perhaps anchors; or
        finished boxes, classes, scores and their number.
    Outputs: DETECTIONS (list of mediapipe.Detection).
    Input side packets: ANCHORS (list of mediapipe.Anchor, optional).
    Options (mediapipe.TfLiteTensorsToDetectionsCalculatorOptions): as
        TensorsToDetectionsCalculator, without box_format, allow_classes and the orders of tensors.

    ::

        node {
          calculator: "TfLiteTensorsToDetectionsCalculator"
          input_stream: "TENSORS:tensors"
          input_side_packet: "ANCHORS:anchors"
          output_stream: "DETECTIONS:detections"
          options {
            [mediapipe.TfLiteTensorsToDetectionsCalculatorOptions.ext] {
              num_classes: 91
              num_boxes: 2034
              num_coords: 4
              x_scale: 10.0
              y_scale: 10.0
              h_scale: 5.0
              w_scale: 5.0
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_tensors_to_detections_calculator.cc``.
    """

    options = Options(_DETECTIONS_OPTIONS)
    is_filtered = True


_SEGMENTATION_OPTIONS = messages.TfLiteTensorsToSegmentationCalculatorOptions

Floats = npt.NDArray[np.float32]


class TfLiteTensorsToFloatsCalculator(Calculator):
    """Sends the numbers of the first tensor of each list, in old graphs.

    Inputs: TENSORS (list of numpy.ndarray): float32.
    Outputs, at least one:
        FLOAT (float): the only number.
        FLOATS (list of float): all numbers.
    Options: none.

    ::

        node {
          calculator: "TfLiteTensorsToFloatsCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "FLOATS:scores"
        }

    Source: MediaPipe ``calculators/tflite/tflite_tensors_to_floats_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        outputs = contract.outputs
        contract.inputs["TENSORS"].set(TENSORS)
        contract.require(
            outputs.has_tag("FLOAT") or outputs.has_tag("FLOATS"),
            "one of the output streams FLOAT and FLOATS is needed",
        )
        outputs["FLOAT"].set(float).optional()
        outputs["FLOATS"].set(list).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        tensor = first_tensor(cc)
        if not tensor.size:
            raise GraphError(
                f"a tensor has numbers; this one has the shape {tensor.shape}",
                code=Code.INVALID_ARGUMENT,
            )
        send_floats(cc, tensor.reshape(-1))


class TfLiteTensorsToSegmentationCalculator(Calculator):
    """Makes a mask of a model's tensor, mixed with the last mask where the model is not sure.

    Inputs:
        TENSORS (list of one numpy.ndarray): float32, (1, h, w, 2).
        PREV_MASK (`ImageFrame`, optional): of 8 bits; its first channel counts.
        REFERENCE_IMAGE (`ImageFrame`, optional): the mask becomes as large; else as the tensor.
    Outputs: MASK (`ImageFrame`): SRGBA; red and alpha are the mask, 0 to 255.
    Options (mediapipe.TfLiteTensorsToSegmentationCalculatorOptions):
        tensor_width, tensor_height, tensor_channels: of the tensor; channels are 2.
        output_layer_index: the channel that is the mask; default 1.
        combine_with_previous_ratio: how much the last mask counts; default 1.
        flip_vertically: the tensor's first row is the lowest.

    ::

        node {
          calculator: "TfLiteTensorsToSegmentationCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "MASK:mask"
          options {
            [mediapipe.TfLiteTensorsToSegmentationCalculatorOptions.ext] {
              tensor_width: 512
              tensor_height: 512
              tensor_channels: 2
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_tensors_to_segmentation_calculator.cc``.
    """

    options = Options(_SEGMENTATION_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        check_image_tags(contract)
        contract.inputs["TENSORS"].set(TENSORS)
        contract.inputs["PREV_MASK"].set(ImageFrame).optional()
        contract.inputs["REFERENCE_IMAGE"].set(ImageFrame).optional()
        contract.outputs["MASK"].set(ImageFrame)
        options = contract.options(_SEGMENTATION_OPTIONS)
        contract.require(
            options.tensor_width > 0 and options.tensor_height > 0,
            "tensor_width and tensor_height are above 0",
        )
        contract.require(
            options.tensor_channels == 2,
            f"tensor_channels is 2, not {options.tensor_channels}",
        )
        contract.require(
            options.output_layer_index in (0, 1), "output_layer_index is one of the 2 channels"
        )
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["TENSORS"].is_empty():
            return
        tensors = cc.inputs["TENSORS"].value
        options = self.options
        shape = options.tensor_height, options.tensor_width, 2
        if len(tensors) != 1 or tensors[0].dtype != np.float32 or tensors[0].size != np.prod(shape):
            raise ImageError(f"one float32 tensor of the shape {(1, *shape)} is needed")
        mask = _softmax(tensors[0].reshape(shape), options.output_layer_index)
        if cc.inputs.has_tag("PREV_MASK") and not cc.inputs["PREV_MASK"].is_empty():
            last = cc.inputs["PREV_MASK"].value.pixels[:, :, 0]
            if last.dtype != np.uint8:
                raise ImageError("PREV_MASK has 8 bits per channel")
            last = opencv().resize(np.ascontiguousarray(last), shape[1::-1])
            ratio = np.float32(options.combine_with_previous_ratio)
            mask += (_mixed(mask, last.astype(np.float32) / np.float32(255)) - mask) * ratio
        values = (mask * np.float32(255)).astype(np.uint8)
        if options.flip_vertically:
            values = np.ascontiguousarray(values[::-1])
        size = shape[1::-1]
        if cc.inputs.has_tag("REFERENCE_IMAGE") and not cc.inputs["REFERENCE_IMAGE"].is_empty():
            frame: ImageFrame = cc.inputs["REFERENCE_IMAGE"].value
            size = frame.width, frame.height
            check_size(size)
        values = opencv().resize(values, size)
        found = np.zeros((*values.shape, 4), np.uint8)
        found[:, :, 0] = found[:, :, 3] = values
        cc.outputs["MASK"].add(ImageFrame.owning(ImageFormat.SRGBA, found), cc.time)


def _softmax(scores: Floats, channel: int) -> Floats:
    """Return the probability of one of two channels, (h, w)."""
    with np.errstate(over="ignore"):
        found: Floats = 1 / (1 + np.exp(scores[:, :, 1 - channel] - scores[:, :, channel]))
    return found


def _mixed(mask: Floats, last: Floats) -> Floats:
    """The mask where it is near 0 or 1, the last one where it is near one half."""
    small = np.float32(0.001)
    entropy = mask * np.log(mask + small) + (1 - mask) * np.log(1 - mask + small)
    certain = np.clip(1 + entropy / np.float32(np.log(2)), 0, 1)
    certain *= 2 - certain
    found: Floats = mask * certain + last * (1 - certain)
    return found


TFLITE_CALCULATORS: tuple[type[Calculator], ...] = (
    TfLiteConverterCalculator,
    TfLiteTensorsToDetectionsCalculator,
    TfLiteTensorsToFloatsCalculator,
    TfLiteTensorsToSegmentationCalculator,
)
