"""ImageToTensorCalculator: a region of an image as a model's input."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError
from calculators.images.image.image_format import ImageFormat
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.opencv import opencv
from calculators.images.image.packet_types import (
    LETTERBOX_PADDING,
    TENSORS,
    check_image_tags,
    message,
)
from calculators.images.image.region import Region
from calculators.images.image.region_sampler import RegionSampler
from calculators.images.image.scaling import check_size
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.ImageToTensorCalculatorOptions"
_FORMATS = (ImageFormat.SRGB, ImageFormat.SRGBA, ImageFormat.GRAY8)
#: OpenCV counts the pixels of a transformed image in 16 bits.
LONGEST_SIDE = 32766
_BORDER_ZERO = 1
#: By the field that sets the range: the tensor's type, and the allowed range.
_TYPES: dict[str, tuple[Any, float, float]] = {
    "output_tensor_float_range": (np.float32, -np.inf, np.inf),
    "output_tensor_int_range": (np.int8, -128, 127),
    "output_tensor_uint_range": (np.uint8, 0, 255),
}


class ImageToTensorCalculator(Calculator):
    """Cuts a region out of each image, scales it, and makes a tensor of it.

    The tensor has the shape (1, height, width, 3), or 1 channel for a gray image; alpha is left
    out. An int range that does not begin below 0 makes a tensor of uint8, as in MediaPipe.

    Inputs:
        IMAGE (`ImageFrame`): SRGB, SRGBA or GRAY8.
        NORM_RECT (mediapipe.NormalizedRect, optional): the region, in fractions of the image; the
            whole image when it is not connected. An image without one at the same timestamp is
            dropped, also where its width and height are 0.
    Outputs:
        TENSORS (list of one numpy.ndarray) or TENSOR (numpy.ndarray).
        LETTERBOX_PADDING (tuple of 4 floats, optional): left, top, right and bottom of what
            ``keep_aspect_ratio`` adds, as fractions of the tensor.
        MATRIX (tuple of 16 floats, optional): 4 rows, from points of the tensor to points of the
            image, both in fractions.
    Options (mediapipe.ImageToTensorCalculatorOptions):
        output_tensor_float_range, output_tensor_int_range or output_tensor_uint_range: the values
            of 0 and 255, and with them the tensor's type: float32, int8 or uint8. One is required.
        output_tensor_width, output_tensor_height: in pixels; the image's own unless given.
        keep_aspect_ratio: the region gets padding rather than being stretched.
        border_mode: pixels beyond the image: BORDER_REPLICATE, the default, or BORDER_ZERO.

    ::

        node {
          calculator: "ImageToTensorCalculator"
          input_stream: "IMAGE:image"
          output_stream: "TENSORS:tensors"
          output_stream: "LETTERBOX_PADDING:padding"
          node_options {
            [type.googleapis.com/mediapipe.ImageToTensorCalculatorOptions] {
              output_tensor_width: 128
              output_tensor_height: 128
              keep_aspect_ratio: true
              output_tensor_float_range { min: -1 max: 1 }
            }
          }
        }

    Source: MediaPipe ``calculators/tensor/image_to_tensor_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        inputs, outputs = contract.inputs, contract.outputs
        inputs["IMAGE"].set(ImageFrame)
        inputs["NORM_RECT"].set(message("NormalizedRect")).optional()
        contract.require(
            outputs.has_tag("TENSORS") is not outputs.has_tag("TENSOR"),
            "exactly one of the output streams TENSORS and TENSOR is needed",
        )
        outputs["TENSORS"].set(TENSORS).optional()
        outputs["TENSOR"].set(np.ndarray).optional()
        outputs["LETTERBOX_PADDING"].set(LETTERBOX_PADDING).optional()
        outputs["MATRIX"].set(tuple).optional()
        _check(contract)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        field = options.WhichOneof("range")
        limits = getattr(options, field)
        self._low, self._high = np.float32(limits.min), np.float32(limits.max)
        self._dtype = _TYPES[field][0]
        if self._dtype is np.int8 and limits.min >= 0:
            self._dtype = np.uint8
        self._sampler: RegionSampler | None = None

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = cc.inputs["IMAGE"].value
        region = Region.whole(frame.width, frame.height)
        if cc.inputs.has_tag("NORM_RECT"):
            shard = cc.inputs["NORM_RECT"]
            if shard.is_empty() or (shard.value.width == 0 and shard.value.height == 0):
                return
            region = Region.of(shard.value, frame.width, frame.height)
        options = self.options
        width = options.output_tensor_width or frame.width
        height = options.output_tensor_height or frame.height
        padding = (0.0, 0.0, 0.0, 0.0)
        if options.keep_aspect_ratio:
            region, padding = region.padded(width, height)
        tensor = self._tensor(frame, region, width, height)
        if cc.outputs.has_tag("LETTERBOX_PADDING"):
            cc.outputs["LETTERBOX_PADDING"].add(padding, cc.time)
        if cc.outputs.has_tag("MATRIX"):
            cc.outputs["MATRIX"].add(region.matrix(frame.width, frame.height), cc.time)
        if cc.outputs.has_tag("TENSORS"):
            cc.outputs["TENSORS"].add([tensor], cc.time)
        else:
            cc.outputs["TENSOR"].add(tensor, cc.time)

    def _tensor(
        self, frame: ImageFrame, region: Region, width: int, height: int
    ) -> npt.NDArray[Any]:
        if frame.image_format not in _FORMATS:
            raise ImageError(
                f"an image of the format {frame.image_format.name} cannot become a tensor here; "
                f"the formats are {', '.join(known.name for known in _FORMATS)}"
            )
        if max(frame.width, frame.height) > LONGEST_SIDE:
            raise ImageError(
                f"an image has at most {LONGEST_SIDE} pixels in a row or column; this one is "
                f"{frame.width}x{frame.height}"
            )
        sampler = self._sampler
        if sampler is None or sampler.size != (width, height):
            cv2 = opencv()
            is_zero = self.options.border_mode == _BORDER_ZERO
            border = cv2.BORDER_CONSTANT if is_zero else cv2.BORDER_REPLICATE
            sampler = self._sampler = RegionSampler(width, height, border)
        found = sampler.sample(frame.numpy_view(), region)
        pixels = found.reshape(1, height, width, frame.channels)[..., :3]
        scale = (self._high - self._low) / np.float32(255)
        values = pixels.astype(np.float32)
        values *= scale
        if self._low:
            values += self._low
        if self._dtype is not np.float32:
            limits = np.iinfo(self._dtype)
            values = np.clip(np.rint(values), limits.min, limits.max)
        return np.ascontiguousarray(values, self._dtype)


def _check(contract: CalculatorContract) -> None:
    """Refuse invalid options."""
    options = contract.options(_OPTIONS)
    field = options.WhichOneof("range")
    contract.require(field is not None, f"one of {', '.join(_TYPES)} is required")
    if field is not None:
        limits = getattr(options, field)
        _, lowest, highest = _TYPES[field]
        contract.require(
            limits.min < limits.max,
            f"{field}: min, {limits.min}, must be less than max, {limits.max}",
        )
        contract.require(
            limits.min >= lowest and limits.max <= highest,
            f"{field}: the range is within {lowest} and {highest}; it is {limits.min} to "
            f"{limits.max}",
        )
    for name in ("output_tensor_width", "output_tensor_height"):
        contract.require(
            not options.HasField(name) or getattr(options, name) > 0,
            f"{name} is a number of pixels above 0, not {getattr(options, name)}",
        )
    try:
        check_size((options.output_tensor_width, options.output_tensor_height))
    except ImageError as error:
        contract.require(False, str(error))
