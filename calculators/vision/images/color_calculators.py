"""Calculators on the channels of images."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calculators.images.image.image_error import ImageError
from calculators.images.image.image_format import ImageFormat
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.opencv import opencv
from calculators.images.image.packet_types import check_image_tags
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_ALPHA = "mediapipe.SetAlphaCalculatorOptions"
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


COLOR_CALCULATORS: tuple[type[Calculator], ...] = (ColorConvertCalculator, SetAlphaCalculator)
