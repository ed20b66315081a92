"""Pictures: channels that change, regions cropped and turned upright, images warped by matrices."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import check_image_tags, message_type
from calculators.images.image.scaling import check_size
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

_OPTIONS = messages.ImageCroppingCalculatorOptions
_REPLICATE = 2


class ImageCroppingCalculator(Calculator):
    """Cuts a rectangle out of each image and turns it upright.

    Inputs:
        IMAGE (`ImageFrame`).
        NORM_RECT (mediapipe.NormalizedRect) or RECT (mediapipe.Rect), optional: the region; an
            image without one at its timestamp is dropped. Or WIDTH and HEIGHT (int, optional).
    Outputs: IMAGE (`ImageFrame`): in the region's size in pixels.
    Options (mediapipe.ImageCroppingCalculatorOptions), where no input says it: width, height or
        norm_width, norm_height; norm_center_x, norm_center_y; rotation; border_mode: BORDER_ZERO,
        the default, or BORDER_REPLICATE; output_max_width, output_max_height.

    ::

        node {
          calculator: "ImageCroppingCalculator"
          input_stream: "IMAGE:image"
          input_stream: "NORM_RECT:roi"
          output_stream: "IMAGE:eye"
          options {
            [mediapipe.ImageCroppingCalculatorOptions.ext] { border_mode: BORDER_REPLICATE }
          }
        }

    Source: MediaPipe ``calculators/images/image/image_cropping_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        check_image_tags(contract)
        inputs = contract.inputs
        inputs["IMAGE"].set(ImageFrame)
        contract.require(
            not (inputs.has_tag("RECT") and inputs.has_tag("NORM_RECT")),
            "at most one of the input streams RECT and NORM_RECT is possible",
        )
        inputs["RECT"].set(message_type("Rect")).optional()
        inputs["NORM_RECT"].set(message_type("NormalizedRect")).optional()
        inputs["WIDTH"].set(int).optional()
        inputs["HEIGHT"].set(int).optional()
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = cc.inputs["IMAGE"].value
        region = self._region(cc, frame)
        if region is None:
            return
        cc.outputs["IMAGE"].add(self._cropped(frame, *region), cc.time)

    def _region(
        self, cc: CalculatorContext, frame: ImageFrame
    ) -> tuple[float, float, float, float, float] | None:
        """Return centre, width, height and rotation, in pixels; None if there is no region."""
        inputs, options = cc.inputs, self.options
        for tag in ("NORM_RECT", "RECT"):
            if not inputs.has_tag(tag):
                continue
            if inputs[tag].is_empty():
                return None
            rect = inputs[tag].value
            across, down = (frame.width, frame.height) if tag == "NORM_RECT" else (1, 1)
            return (
                rect.x_center * across,
                rect.y_center * down,
                rect.width * across,
                rect.height * down,
                rect.rotation,
            )
        width, height = float(options.width or frame.width), float(options.height or frame.height)
        if inputs.has_tag("WIDTH") and not inputs["WIDTH"].is_empty():
            width = inputs["WIDTH"].value
        if inputs.has_tag("HEIGHT") and not inputs["HEIGHT"].is_empty():
            height = inputs["HEIGHT"].value
        if options.HasField("norm_width") and options.HasField("norm_height"):
            width, height = options.norm_width * frame.width, options.norm_height * frame.height
        x, y = frame.width / 2, frame.height / 2
        if options.HasField("norm_center_x") and options.HasField("norm_center_y"):
            x, y = options.norm_center_x * frame.width, options.norm_center_y * frame.height
        return x, y, width, height, options.rotation

    def _cropped(
        self, frame: ImageFrame, x: float, y: float, width: float, height: float, rotation: float
    ) -> ImageFrame:
        options = self.options
        if not all(map(math.isfinite, (x, y, width, height, rotation))) or min(width, height) <= 0:
            raise ImageError(f"a region needs a width and height above 0; it is {width}x{height}")
        scale = 1.0
        if options.output_max_width:
            scale = min(scale, options.output_max_width / width)
        if options.output_max_height:
            scale = min(scale, options.output_max_height / height)
        size = (max(round(width * scale), 1), max(round(height * scale), 1))
        check_size(size)
        cv2 = opencv()
        source = cv2.boxPoints(((x, y), (width, height), math.degrees(rotation)))
        target = np.array(
            [[0, size[1] - 1], [0, 0], [size[0] - 1, 0], [size[0] - 1, size[1] - 1]], np.float32
        )
        is_replicated = options.border_mode == _REPLICATE
        found: Any = cv2.warpPerspective(
            frame.numpy_view(),
            cv2.getPerspectiveTransform(source, target),
            size,
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE if is_replicated else cv2.BORDER_CONSTANT,
        )
        return ImageFrame.owning(frame.image_format, found)


_WARP = messages.WarpAffineCalculatorOptions
_ZERO, _CUBIC = 1, 2
#: Smaller determinants are taken for 0, as by Eigen.
_SMALLEST: Final = 2.220446049250313e-16


class InverseMatrixCalculator(Calculator):
    """Inverts matrices.

    Inputs: MATRIX (tuple of 16 floats): 4 rows.
    Outputs: MATRIX (tuple of 16 floats).
    Options: none.

    ::

        node {
          calculator: "InverseMatrixCalculator"
          input_stream: "MATRIX:to_image"
          output_stream: "MATRIX:to_region"
        }

    Source: MediaPipe ``calculators/util/inverse_matrix_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["MATRIX"].set(tuple)
        contract.outputs["MATRIX"].set(tuple)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["MATRIX"].is_empty():
            return
        matrix = np.array(cc.inputs["MATRIX"].value, np.float32).reshape(4, 4)
        if abs(np.linalg.det(matrix.astype(np.float64))) <= _SMALLEST:
            raise GraphError("the matrix cannot be inverted", code=Code.INTERNAL)
        inverse = np.linalg.inv(matrix.astype(np.float64)).astype(np.float32)
        cc.outputs["MATRIX"].add(tuple(inverse.reshape(-1).tolist()), cc.time)


class WarpAffineCalculator(Calculator):
    """Warps images by matrices.

    Inputs:
        IMAGE (`ImageFrame`).
        MATRIX (tuple of 16 floats): from points of the output to points of the input, in fractions.
        OUTPUT_SIZE (tuple): width and height in pixels.
    Outputs: IMAGE (`ImageFrame`): of the input's format.
    Options (mediapipe.WarpAffineCalculatorOptions):
        border_mode: pixels beyond the input: BORDER_REPLICATE, the default, or BORDER_ZERO.
        interpolation: INTER_LINEAR, the default, or INTER_CUBIC.

    ::

        node {
          calculator: "WarpAffineCalculator"
          input_stream: "IMAGE:mask_of_region"
          input_stream: "MATRIX:matrix"
          input_stream: "OUTPUT_SIZE:size"
          output_stream: "IMAGE:mask"
          options {
            [mediapipe.WarpAffineCalculatorOptions.ext] { border_mode: BORDER_ZERO }
          }
        }

    Source: MediaPipe ``calculators/images/image/warp_affine_calculator.cc``.
    """

    options = Options(_WARP)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.inputs["MATRIX"].set(tuple)
        contract.inputs["OUTPUT_SIZE"].set(tuple)
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if any(shard.is_empty() for shard in cc.input_list):
            return
        size: tuple[int, int] = cc.inputs["OUTPUT_SIZE"].value
        check_size(size)
        frame: ImageFrame = cc.inputs["IMAGE"].value
        matrix = np.array(cc.inputs["MATRIX"].value, np.float32).reshape(4, 4)
        cc.outputs["IMAGE"].add(_warped(frame, matrix, size, self.options), cc.time)


def _warped(
    frame: ImageFrame,
    matrix: Any,
    size: tuple[int, int],
    options: messages.WarpAffineCalculatorOptions,
) -> ImageFrame:
    cv2 = opencv()
    to_input = np.array([[frame.width], [frame.height]], np.float32)
    to_output = np.array([size[0], size[1], 1], np.float32)
    in_pixels = to_input * matrix[:2][:, [0, 1, 3]] / to_output
    cubic = options.interpolation == _CUBIC
    border = cv2.BORDER_CONSTANT if options.border_mode == _ZERO else cv2.BORDER_REPLICATE
    found = cv2.warpAffine(
        frame.numpy_view(),
        in_pixels,
        size,
        flags=(cv2.INTER_CUBIC if cubic else cv2.INTER_LINEAR) | cv2.WARP_INVERSE_MAP,
        borderMode=border,
    )
    return ImageFrame.owning(frame.image_format, found)


class WarpAffineCalculatorCpu(WarpAffineCalculator):
    __doc__ = WarpAffineCalculator.__doc__


def mask_frame(mask: Any) -> ImageFrame:
    """Make the frame of a mask (height, width) of float32, which the caller does not write to."""
    return ImageFrame.owning(ImageFormat.VEC32F1, mask)


_ALPHA = messages.SetAlphaCalculatorOptions
#: Formats by tag, and OpenCV's word for a conversion by tags.
_INPUTS: Final = {
    "RGBA_IN": ImageFormat.SRGBA,
    "RGB_IN": ImageFormat.SRGB,
    "BGRA_IN": ImageFormat.SBGRA,
    "GRAY_IN": ImageFormat.GRAY8,
}
_OUTPUTS: Final = {
    "RGBA_OUT": ImageFormat.SRGBA,
    "RGB_OUT": ImageFormat.SRGB,
    "BGRA_OUT": ImageFormat.SBGRA,
    "GRAY_OUT": ImageFormat.GRAY8,
}
_CONVERSIONS: Final = {
    ("RGBA_IN", "RGB_OUT"): "COLOR_RGBA2RGB",
    ("GRAY_IN", "RGB_OUT"): "COLOR_GRAY2RGB",
    ("RGB_IN", "GRAY_OUT"): "COLOR_RGB2GRAY",
    ("RGB_IN", "RGBA_OUT"): "COLOR_RGB2RGBA",
    ("RGBA_IN", "BGRA_OUT"): "COLOR_RGBA2BGRA",
    ("BGRA_IN", "RGBA_OUT"): "COLOR_BGRA2RGBA",
}


class ColorConvertCalculator(Calculator):
    """Converts images from one format to another.

    RGBA to RGB and BGRA, GRAY to RGB, RGB to GRAY and RGBA, BGRA to RGBA.

    Inputs, exactly one: RGBA_IN, RGB_IN, BGRA_IN, GRAY_IN (`ImageFrame`).
    Outputs, exactly one: RGBA_OUT, RGB_OUT, BGRA_OUT, GRAY_OUT (`ImageFrame`).
    Options: none.

    ::

        node {
          calculator: "ColorConvertCalculator"
          input_stream: "RGB_IN:image"
          output_stream: "GRAY_OUT:gray"
        }

    Source: MediaPipe ``calculators/images/image/color_convert_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
        for tags, ports in ((_INPUTS, contract.inputs), (_OUTPUTS, contract.outputs)):
            for tag in tags:
                ports[tag].set(ImageFrame).optional()
        pair = (*contract.inputs.tags(), *contract.outputs.tags())
        known = "; ".join(" to ".join(each) for each in _CONVERSIONS)
        contract.require(pair in _CONVERSIONS, f"the conversions are {known}")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        (self._source,) = cc.inputs.tags()
        (self._target,) = cc.outputs.tags()

    def process(self, cc: CalculatorContext) -> None:
        frame: ImageFrame = cc.inputs[self._source].value
        wanted = _INPUTS[self._source]
        # A mask in four channels has a gray image in its first three, as MediaPipe takes it.
        is_known = frame.image_format is wanted or (
            wanted is ImageFormat.SRGB and frame.image_format is ImageFormat.SRGBA
        )
        if not is_known:
            raise ImageError(
                f"{self._source} takes images of the format {wanted.name}, not "
                f"{frame.image_format.name}"
            )
        cv2 = opencv()
        code = getattr(cv2, _CONVERSIONS[self._source, self._target])
        found = cv2.cvtColor(frame.numpy_view(), code)
        cc.outputs[self._target].add(ImageFrame.owning(_OUTPUTS[self._target], found), cc.time)


class SetAlphaCalculator(Calculator):
    """Gives an image an alpha channel: one value, or the first channel of another image.

    Inputs:
        IMAGE (`ImageFrame`): SRGB or SRGBA.
        ALPHA (`ImageFrame`, optional): as large; of 8 bits, or VEC32F1 from 0 to 1. Where it has no
            packet, the image is transparent.
    Outputs: IMAGE (`ImageFrame`): SRGBA.
    Options (mediapipe.SetAlphaCalculatorOptions):
        alpha_value: 0 to 255, in place of ALPHA.

    ::

        node {
          calculator: "SetAlphaCalculator"
          input_stream: "IMAGE:image"
          output_stream: "IMAGE:transparent"
          options { [mediapipe.SetAlphaCalculatorOptions.ext] { alpha_value: 128 } }
        }

    Source: MediaPipe ``calculators/images/image/set_alpha_calculator.cc``.
    """

    options = Options(_ALPHA)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.inputs["ALPHA"].set(ImageFrame).optional()
        contract.outputs["IMAGE"].set(ImageFrame)
        value = contract.options(_ALPHA).alpha_value
        contract.require(
            (value >= 0) is not contract.inputs.has_tag("ALPHA"),
            "exactly one of the option alpha_value and the input stream ALPHA is needed",
        )
        contract.require(value <= 255, f"alpha_value is at most 255, not {value}")
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = cc.inputs["IMAGE"].value
        if frame.image_format not in (ImageFormat.SRGB, ImageFormat.SRGBA):
            raise ImageError(
                f"IMAGE takes images of the formats SRGB and SRGBA, not {frame.image_format.name}"
            )
        found = np.empty((frame.height, frame.width, 4), np.uint8)
        found[:, :, :3] = frame.pixels[:, :, :3]
        found[:, :, 3] = self._alpha(cc, frame)
        cc.outputs["IMAGE"].add(ImageFrame.owning(ImageFormat.SRGBA, found), cc.time)

    def _alpha(self, cc: CalculatorContext, frame: ImageFrame) -> Any:
        if not cc.inputs.has_tag("ALPHA"):
            return self.options.alpha_value
        if cc.inputs["ALPHA"].is_empty():
            return 0
        alpha: ImageFrame = cc.inputs["ALPHA"].value
        if (alpha.width, alpha.height) != (frame.width, frame.height):
            raise ImageError(
                f"ALPHA is {alpha.width}x{alpha.height}, and IMAGE {frame.width}x{frame.height}; "
                f"they are equally large"
            )
        values = alpha.pixels[:, :, 0]
        if alpha.image_format is ImageFormat.VEC32F1:
            return np.floor(np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)
        if values.dtype != np.uint8:
            raise ImageError(f"ALPHA has 8 bits or is VEC32F1, not {alpha.image_format.name}")
        return values


PICTURE_CALCULATORS: tuple[type[Calculator], ...] = (
    ColorConvertCalculator,
    ImageCroppingCalculator,
    InverseMatrixCalculator,
    SetAlphaCalculator,
    WarpAffineCalculator,
    WarpAffineCalculatorCpu,
)
