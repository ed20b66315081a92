"""Images as tensors: the region of an image that a model is to see, as the model's input."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import (
    LETTERBOX_PADDING,
    TENSORS,
    check_image_tags,
    message_type,
)
from calculators.images.image.scaling import check_size
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle in an image, in pixels; ``rotation`` is clockwise, in radians.

    Source: MediaPipe ``calculators/tensor/image_to_tensor_utils.cc``.
    """

    center_x: float
    center_y: float
    width: float
    height: float
    rotation: float = 0.0

    @classmethod
    def whole(cls, width: int, height: int) -> Region:
        """Return the whole image, of ``width`` by ``height`` pixels."""
        return cls(0.5 * width, 0.5 * height, width, height)

    @classmethod
    def of(cls, rect: Any, width: int, height: int) -> Region:
        """Return the region of a mediapipe.NormalizedRect in an image of that size, in pixels.

        Raises:
            ImageError: the rectangle has no area, or its numbers are not finite.
        """
        found = cls(
            rect.x_center * width,
            rect.y_center * height,
            rect.width * width,
            rect.height * height,
            rect.rotation,
        )
        numbers = (found.center_x, found.center_y, found.width, found.height, found.rotation)
        if not all(map(math.isfinite, numbers)) or found.width <= 0 or found.height <= 0:
            raise ImageError(
                f"NORM_RECT needs a width and height above 0 and finite numbers; its width is "
                f"{rect.width:g} and its height {rect.height:g}"
            )
        return found

    def padded(self, width: int, height: int) -> tuple[Region, tuple[float, float, float, float]]:
        """A region with the aspect ratio of a tensor of that size, and how much is padding.

        The padding is left, top, right and bottom, as fractions of the tensor.
        """
        wanted, own = height / width, self.height / self.width
        if wanted > own:
            vertical = (1 - own / wanted) / 2
            return replace(self, height=self.width * wanted), (0.0, vertical, 0.0, vertical)
        horizontal = (1 - wanted / own) / 2
        return replace(self, width=self.height / wanted), (horizontal, 0.0, horizontal, 0.0)

    def corners(self) -> npt.NDArray[np.float32]:
        """Return (4, 2), x and y: bottom left, top left, top right, bottom right, as in OpenCV."""
        a, b = math.sin(self.rotation) / 2, math.cos(self.rotation) / 2
        x, y, width, height = self.center_x, self.center_y, self.width, self.height
        bottom_left = (x - a * height - b * width, y + b * height - a * width)
        top_left = (x + a * height - b * width, y - b * height - a * width)
        opposite = [(2 * x - cx, 2 * y - cy) for cx, cy in (bottom_left, top_left)]
        return np.array([bottom_left, top_left, *opposite], np.float32)

    def matrix(self, width: int, height: int) -> tuple[float, ...]:
        """Return the matrix from points in the region to points in the image of that size.

        It has 16 numbers, row by row. Points are fractions of the region and of the image.
        """
        a, b = self.width, self.height
        c, d = math.cos(self.rotation), math.sin(self.rotation)
        e, f = self.center_x, self.center_y
        g, h = 1 / width, 1 / height
        return (
            *(a * c * g, -b * d * g, 0.0, (-0.5 * a * c + 0.5 * b * d + e) * g),
            *(a * d * h, b * c * h, 0.0, (-0.5 * b * c - 0.5 * a * d + f) * h),
            *(0.0, 0.0, a * g, 0.0),
            *(0.0, 0.0, 0.0, 1.0),
        )


Image = npt.NDArray[Any]

#: Steps between two pixels at which OpenCV samples, and the bits of their number.
_STEPS: Final = 32
_BITS: Final = 5
#: Pixels of an image for one of the result, up to which a region is copied first: of more, most are
#: not needed.
_MOST_COPIED: Final = 4
#: Pixels up to which the places of a region are kept.
_MOST_KEPT: Final = 1 << 20


class RegionSampler:
    """Samples regions of images by bilinear interpolation, as MediaPipe does.

    The places of a region that comes again, as the whole image does in every frame of a video, are
    kept: finding them takes longer than sampling. The pixels are the same.

    Attributes:
        size: width and height of what `sample` returns, in pixels.
    """

    def __init__(self, width: int, height: int, border: int) -> None:
        """``border``: OpenCV's mode beyond the image."""
        self.size = (width, height)
        self._border = border
        self._region: Region | None = None
        self._places: tuple[Image, Image] | None = None

    def sample(self, image: Image, region: Region) -> Image:
        """Return the region's pixels, (height, width, channels), as the image's type."""
        cv2 = opencv()
        width, height = self.size
        found: Image
        if region == self._region and self._places is not None:
            found = cv2.remap(image, *self._places, cv2.INTER_LINEAR, borderMode=self._border)
            return found
        corners = np.array([[0, height], [0, 0], [width, 0], [width, height]], np.float32)
        in_image = region.corners()
        matrix = cv2.getPerspectiveTransform(in_image, corners)
        if region == self._region and width * height <= _MOST_KEPT:
            self._places = _places(cv2.invert(matrix)[1], width, height)
        elif region != self._region:
            self._region, self._places = region, None
        part, left, top = _part(image, in_image)
        if part.shape[0] * part.shape[1] <= _MOST_COPIED * width * height:
            # A processor reads ahead along rows: pixel by pixel, as a turned region has them, it
            # would wait for memory each time.
            image = np.ascontiguousarray(part)
            matrix[:, 2] += matrix[:, 0] * left + matrix[:, 1] * top
        found = cv2.warpPerspective(
            image, matrix, self.size, flags=cv2.INTER_LINEAR, borderMode=self._border
        )
        return found


def _part(image: Image, corners: npt.NDArray[np.float32]) -> tuple[Image, int, int]:
    """Return the part of an image that a region needs, and the part's left and top."""
    ends = [each.tolist() for each in (corners.min(axis=0), corners.max(axis=0))]
    slices, first = [], []
    for low, high, most in zip(*ends, image.shape[1::-1], strict=True):
        # With the neighbours of the outermost pixels.
        begin = min(max(math.floor(low) - 2, 0), most - 1)
        slices.append(slice(begin, min(max(math.ceil(high) + 3, begin + 1), most)))
        first.append(begin)
    return image[slices[1], slices[0]], first[0], first[1]


def _places(matrix: Image, width: int, height: int) -> tuple[Image, Image]:
    """Whole pixels (height, width, 2) and fractions (height, width), as ``cv2.remap`` takes them.

    Args:
        matrix: (3, 3), from pixels of the result to pixels of the image.
    """
    x = np.arange(width, dtype=np.float64)[np.newaxis]
    y = np.arange(height, dtype=np.float64)[:, np.newaxis]
    at_x, at_y, depth = (row[0] * x + row[1] * y + row[2] for row in matrix)
    steps = np.stack([at_x, at_y], axis=-1) * (_STEPS / depth)[..., np.newaxis]
    limit = _STEPS * np.iinfo(np.int16).max
    whole = np.rint(np.clip(steps, -limit, limit)).astype(np.int32)
    part = whole & (_STEPS - 1)
    fractions = part[..., 1] * _STEPS + part[..., 0]
    return (whole >> _BITS).astype(np.int16), fractions.astype(np.uint16)


_OPTIONS = messages.ImageToTensorCalculatorOptions
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
        check_opencv()
        check_image_tags(contract)
        inputs, outputs = contract.inputs, contract.outputs
        inputs["IMAGE"].set(ImageFrame)
        inputs["NORM_RECT"].set(message_type("NormalizedRect")).optional()
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
        assert field is not None, "the contract asks for one"
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


_CONVERTER_OPTIONS = messages.OpenVINOConverterCalculatorOptions


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

    options = Options(_CONVERTER_OPTIONS)
    input_stream_handler = "FixedSizeInputStreamHandler"

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        options = contract.options(_CONVERTER_OPTIONS)
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
    """Return the values of 0 and 255 in the tensor; None to leave the image unchanged."""
    if not options.enable_normalization:
        return None
    if options.use_custom_normalization:
        low = np.float32(-options.custom_sub)
        return low, np.float32(-options.custom_sub + 255.0 / options.custom_div)
    if options.HasField("output_tensor_float_range"):
        limits = options.output_tensor_float_range
        return np.float32(limits.min), np.float32(limits.max)
    return (np.float32(-1), np.float32(1)) if options.zero_center else None
