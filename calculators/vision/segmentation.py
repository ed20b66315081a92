"""Calculators on masks: out of tensors, smoothed over time, drawn as a color."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import TENSORS, check_image_tags
from calculators.images.image.scaling import check_size
from calculators.vision.landmarks.scores_calculators import sigmoid
from calculators.vision.pictures import mask_frame
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

_SEGMENTATION = messages.TensorsToSegmentationCalculatorOptions
_SMOOTHING = messages.SegmentationSmoothingCalculatorOptions
_RECOLOR = messages.RecolorCalculatorOptions
_SIGMOID, _SOFTMAX = 1, 2
_ALPHA = 2
#: Coefficients of uncertainty by the squared distance from 0.5, the highest power first.
_UNCERTAINTY = (-624.717, 291.309, -57.8051, -0.748699, 5.68842)

Floats = npt.NDArray[np.float32]


class TensorsToSegmentationCalculator(Calculator):
    """Makes a mask of a model's tensor.

    Inputs:
        TENSORS (list of one numpy.ndarray) or TENSOR (numpy.ndarray): float32, (1, h, w, c).
        OUTPUT_SIZE (tuple, optional): width and height of the mask; the tensor's own unless given.
    Outputs: MASK (`ImageFrame`): VEC32F1, from 0 to 1.
    Options (mediapipe.TensorsToSegmentationCalculatorOptions):
        activation: NONE, the default, or SIGMOID, of one channel; SOFTMAX of two.
        output_layer_index: the channel that is the mask, with SOFTMAX; default 1.

    ::

        node {
          calculator: "TensorsToSegmentationCalculator"
          input_stream: "TENSORS:tensors"
          input_stream: "OUTPUT_SIZE:size"
          output_stream: "MASK:mask"
          options {
            [mediapipe.TensorsToSegmentationCalculatorOptions.ext] { activation: SIGMOID }
          }
        }

    Source: MediaPipe ``calculators/tensor/tensors_to_segmentation_calculator.cc``.
    """

    options = Options(_SEGMENTATION)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        inputs = contract.inputs
        contract.require(
            inputs.has_tag("TENSORS") is not inputs.has_tag("TENSOR"),
            "exactly one of the input streams TENSORS and TENSOR is needed",
        )
        inputs["TENSORS"].set(TENSORS).optional()
        inputs["TENSOR"].set(np.ndarray).optional()
        inputs["OUTPUT_SIZE"].set(tuple).optional()
        contract.outputs["MASK"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        tag = "TENSORS" if cc.inputs.has_tag("TENSORS") else "TENSOR"
        if cc.inputs[tag].is_empty():
            return
        value = cc.inputs[tag].value
        mask = self._mask(value[0] if tag == "TENSORS" and value else value)
        if cc.inputs.has_tag("OUTPUT_SIZE") and not cc.inputs["OUTPUT_SIZE"].is_empty():
            size: tuple[int, int] = cc.inputs["OUTPUT_SIZE"].value
            check_size(size)
            mask = opencv().resize(mask, size)
        cc.outputs["MASK"].add(mask_frame(mask), cc.time)

    def _mask(self, tensor: Any) -> Floats:
        """Return the mask (h, w) of the tensor (1, h, w, c) or (h, w, c)."""
        activation = self.options.activation
        channels = 2 if activation == _SOFTMAX else 1
        shape: tuple[int, ...] = getattr(tensor, "shape", ())
        if (
            len(shape) not in (3, 4)
            or shape[-1] != channels
            or (len(shape) == 4 and shape[0] != 1)
            or tensor.dtype != np.float32
        ):
            raise GraphError(
                f"a tensor of float32 with the shape (1, height, width, {channels}) is needed; it "
                f"is {tuple(shape)} of {getattr(tensor, 'dtype', type(tensor).__name__)}",
                code=Code.INVALID_ARGUMENT,
            )
        raw: Floats = tensor.reshape(shape[len(shape) - 3 :])
        if activation == _SOFTMAX:
            # With two classes, one is the logistic function of the difference.
            layer = self.options.output_layer_index
            if layer not in (0, 1):
                raise GraphError(
                    f"output_layer_index is 0 or 1, not {layer}", code=Code.INVALID_ARGUMENT
                )
            return sigmoid(raw[..., layer] - raw[..., 1 - layer])
        return sigmoid(raw[..., 0]) if activation == _SIGMOID else raw[..., 0]


class SegmentationSmoothingCalculator(Calculator):
    """Mixes each mask with the last one where it is uncertain.

    Inputs:
        MASK (`ImageFrame`): VEC32F1.
        MASK_PREVIOUS (`ImageFrame`): without it, or if it has another size, the mask passes.
    Outputs: MASK_SMOOTHED (`ImageFrame`).
    Options (mediapipe.SegmentationSmoothingCalculatorOptions):
        combine_with_previous_ratio: of the last mask where the new one is 0.5; default 0.

    ::

        node {
          calculator: "SegmentationSmoothingCalculator"
          input_stream: "MASK:mask"
          input_stream: "MASK_PREVIOUS:last_mask"
          output_stream: "MASK_SMOOTHED:smooth_mask"
          options {
            [mediapipe.SegmentationSmoothingCalculatorOptions.ext] {
              combine_with_previous_ratio: 0.7
            }
          }
        }

    Source: MediaPipe ``calculators/images/image/segmentation_smoothing_calculator.cc``.
    """

    options = Options(_SMOOTHING)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["MASK"].set(ImageFrame)
        contract.inputs["MASK_PREVIOUS"].set(ImageFrame)
        contract.outputs["MASK_SMOOTHED"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["MASK"].is_empty():
            return
        frame: ImageFrame = cc.inputs["MASK"].value
        ratio = self.options.combine_with_previous_ratio
        if cc.inputs["MASK_PREVIOUS"].is_empty() or ratio == 0:
            cc.outputs["MASK_SMOOTHED"].add_packet(cc.inputs["MASK"].packet)
            return
        previous: ImageFrame = cc.inputs["MASK_PREVIOUS"].value
        if previous.pixels.shape != frame.pixels.shape:
            # MediaPipe fails here, and with it every later frame.
            cc.outputs["MASK_SMOOTHED"].add_packet(cc.inputs["MASK"].packet)
            return
        new, last = frame.numpy_view(), previous.numpy_view()
        distance = new - np.float32(0.5)
        distance *= distance
        certainty = np.full_like(distance, _UNCERTAINTY[0])
        for coefficient in _UNCERTAINTY[1:]:
            certainty *= distance
            certainty += np.float32(coefficient)
        certainty *= distance
        np.minimum(certainty, np.float32(1), out=certainty)
        mixed = (1 - certainty) * np.float32(ratio)
        mixed *= last - new
        mixed += new
        cc.outputs["MASK_SMOOTHED"].add(mask_frame(mixed), cc.time)


class RecolorCalculator(Calculator):
    """Colors an image where a mask is.

    Inputs:
        IMAGE (`ImageFrame`): SRGB.
        MASK (`ImageFrame`): VEC32F1, GRAY8, SRGB or SRGBA, of any size. The image passes without
            one.
    Outputs: IMAGE (`ImageFrame`): SRGB.
    Options (mediapipe.RecolorCalculatorOptions):
        color: required.
        mask_channel: RED, the default, or ALPHA.
        invert_mask: the rest is colored.
        adjust_with_luminance: brighter pixels take more of the color; True by default.

    ::

        node {
          calculator: "RecolorCalculator"
          input_stream: "IMAGE:image"
          input_stream: "MASK:mask"
          output_stream: "IMAGE:colored"
          options {
            [mediapipe.RecolorCalculatorOptions.ext] { color { r: 0 g: 0 b: 255 } }
          }
        }

    Source: MediaPipe ``calculators/images/image/recolor_calculator.cc``.
    """

    options = Options(_RECOLOR)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.inputs["MASK"].set(ImageFrame).optional()
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.require(contract.options(_RECOLOR).HasField("color"), "color is needed")
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IMAGE"].is_empty():
            return
        if not cc.inputs.has_tag("MASK") or cc.inputs["MASK"].is_empty():
            # The same packet: nobody may write into it, so it needs no copy.
            cc.outputs["IMAGE"].add_packet(cc.inputs["IMAGE"].packet)
            return
        frame: ImageFrame = cc.inputs["IMAGE"].value
        options = self.options
        if frame.image_format is not ImageFormat.SRGB:
            raise GraphError(
                f"an image of the format SRGB is needed, not {frame.image_format.name}",
                code=Code.INVALID_ARGUMENT,
            )
        weight = self._weight(cc.inputs["MASK"].value, (frame.width, frame.height))
        pixels = frame.pixels.astype(np.float32)
        if options.adjust_with_luminance:
            weight *= pixels @ (np.array([0.299, 0.587, 0.114]) / 255).astype(np.float32)
        weight = weight[:, :, np.newaxis]
        color = np.array([options.color.r, options.color.g, options.color.b], np.float32)
        mixed = pixels * (1 - weight) + color * weight
        found = np.clip(mixed, 0, 255).astype(np.uint8)
        cc.outputs["IMAGE"].add(ImageFrame.owning(ImageFormat.SRGB, found), cc.time)

    def _weight(self, mask: ImageFrame, size: tuple[int, int]) -> Floats:
        """Return weights (h, w), from 0 to 1, in the size of the image."""
        options = self.options
        channel = mask.channels - 1 if options.mask_channel == _ALPHA else 0
        found = np.ascontiguousarray(mask.pixels[:, :, channel])
        if (found.shape[1], found.shape[0]) != size:
            found = opencv().resize(found, size)
        weight: npt.NDArray[np.float32] = np.asarray(found, np.float32).copy()
        if mask.pixels.dtype == np.uint8:
            weight /= np.float32(255)
        if options.invert_mask:
            np.subtract(np.float32(1), weight, out=weight)
        return weight


SEGMENTATION: tuple[type[Calculator], ...] = (
    RecolorCalculator,
    SegmentationSmoothingCalculator,
    TensorsToSegmentationCalculator,
)
