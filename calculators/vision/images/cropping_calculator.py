"""ImageCroppingCalculator: a region of an image, turned upright."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calculators.images.image.image_error import ImageError
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.opencv import opencv
from calculators.images.image.packet_types import check_image_tags
from calculators.images.image.scaling import check_size
from calculators.vision.messages import message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.ImageCroppingCalculatorOptions"
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
