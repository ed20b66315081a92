"""ImageTransformationCalculator: another size, rotation or direction."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.opencv import opencv
from calculators.images.image.packet_types import LETTERBOX_PADDING, check_image_tags
from calculators.images.image.scaling import FIT, STRETCH, letterbox_padding, scaled, size_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Options,
)

# RotationMode.Mode
_DEGREES = {0: 0, 1: 0, 2: 90, 3: 180, 4: 270}
# ImageTransformationCalculatorOptions.InterpolationMode
_NEAREST = 2


class ImageTransformationCalculator(Calculator):
    """Scales each image, then rotates it, then flips it.

    Scaling is by area where the image gets smaller, else linear. As in MediaPipe's CPU code, an
    image that has the output's size already, so also a scaled one, is rotated around its middle
    within that size; and FILL_AND_CROP gives the largest image that fits, without cutting.

    Inputs:
        IMAGE (`ImageFrame`).
        OUTPUT_DIMENSIONS (tuple, optional): width and height in pixels; an image without them at
            the same timestamp is dropped.
        ROTATION_DEGREES (int, optional): counterclockwise: 90, 180, 270, anything else is 0.
        FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool, optional).
        The last value of each stream stays in force until the next one.
    Outputs:
        IMAGE (`ImageFrame`): of the input's format.
        LETTERBOX_PADDING (tuple of 4 floats, optional): left, top, right and bottom, as fractions
            of the output; not 0 only with FIT.
    Input side packets, all optional: OUTPUT_DIMENSIONS (tuple or list), ROTATION_DEGREES (int),
        FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool): in place of the options.
    Options (mediapipe.ImageTransformationCalculatorOptions):
        output_width, output_height: in pixels; without both, the size stays.
        rotation_mode: ROTATION_0, ROTATION_90, ROTATION_180 or ROTATION_270, counterclockwise.
        flip_vertically, flip_horizontally.
        scale_mode: STRETCH, the default; FIT, with padding; FILL_AND_CROP, see above.
        constant_padding, padding_color: of FIT: a colour, black unless given, or the outermost
            pixels repeated.
        interpolation_mode: LINEAR, the default, or NEAREST.

    ::

        node {
          calculator: "ImageTransformationCalculator"
          input_stream: "IMAGE:image"
          output_stream: "IMAGE:small_image"
          output_stream: "LETTERBOX_PADDING:padding"
          node_options {
            [type.googleapis.com/mediapipe.ImageTransformationCalculatorOptions] {
              output_width: 320
              output_height: 320
              scale_mode: FIT
            }
          }
        }

    Source: MediaPipe ``calculators/images/image/image_transformation_calculator.cc``, without its
    VIDEO_PRESTREAM.
    """

    options = Options("mediapipe.ImageTransformationCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        inputs["IMAGE"].set(ImageFrame)
        outputs["IMAGE"].set(ImageFrame)
        outputs["LETTERBOX_PADDING"].set(LETTERBOX_PADDING).optional()
        inputs["OUTPUT_DIMENSIONS"].set(tuple).optional()
        sides["OUTPUT_DIMENSIONS"].set_one_of(tuple, list).optional()
        for ports in (inputs, sides):
            ports["ROTATION_DEGREES"].set(int).optional()
            ports["FLIP_HORIZONTALLY"].set(bool).optional()
            ports["FLIP_VERTICALLY"].set(bool).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options, sides = self.options, cc.input_side_packets
        self._size = (options.output_width, options.output_height)
        if sides.has_tag("OUTPUT_DIMENSIONS"):
            self._size = size_of(sides["OUTPUT_DIMENSIONS"].value)
        self._degrees = _DEGREES[options.rotation_mode]
        if sides.has_tag("ROTATION_DEGREES"):
            self._degrees = _known_degrees(sides["ROTATION_DEGREES"].value)
        self._flips_horizontally: bool = _first(
            sides, "FLIP_HORIZONTALLY", options.flip_horizontally
        )
        self._flips_vertically: bool = _first(sides, "FLIP_VERTICALLY", options.flip_vertically)
        self._mode = options.scale_mode or STRETCH

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        self._flips_horizontally = _current(inputs, "FLIP_HORIZONTALLY", self._flips_horizontally)
        self._flips_vertically = _current(inputs, "FLIP_VERTICALLY", self._flips_vertically)
        self._degrees = _known_degrees(_current(inputs, "ROTATION_DEGREES", self._degrees))
        if inputs.has_tag("OUTPUT_DIMENSIONS"):
            if inputs["OUTPUT_DIMENSIONS"].is_empty():
                return
            self._size = size_of(inputs["OUTPUT_DIMENSIONS"].value)
        if inputs["IMAGE"].is_empty():
            return
        frame: ImageFrame = inputs["IMAGE"].value
        image, (width, height) = self._scaled(frame)
        if cc.outputs.has_tag("LETTERBOX_PADDING"):
            padding = (0.0, 0.0, 0.0, 0.0)
            if self._mode == FIT:
                before = (frame.width, frame.height)
                turned = before[::-1] if self._degrees in (90, 270) else before
                padding = letterbox_padding(turned, (width, height))
            cc.outputs["LETTERBOX_PADDING"].add(padding, cc.time)
        image = self._turned(image, (width, height))
        cc.outputs["IMAGE"].add(ImageFrame.owning(frame.image_format, image), cc.time)

    def _scaled(self, frame: ImageFrame) -> tuple[npt.NDArray[Any], tuple[int, int]]:
        """The image before it is turned, and the size of the output."""
        if self._size[0] > 0 and self._size[1] > 0:
            options = self.options
            color = options.padding_color
            image = scaled(
                frame.numpy_view(),
                self._size,
                mode=self._mode,
                is_nearest=options.interpolation_mode == _NEAREST,
                padding=(color.red, color.green, color.blue) if options.constant_padding else None,
            )
            is_smaller = self._mode not in (STRETCH, FIT)
            return image, (image.shape[1], image.shape[0]) if is_smaller else self._size
        size = (frame.width, frame.height)
        return frame.numpy_view(), size[::-1] if self._degrees in (90, 270) else size

    def _turned(self, image: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
        cv2 = opencv()
        if self._degrees and (image.shape[1], image.shape[0]) == size:
            matrix = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), self._degrees, 1.0)
            image = cv2.warpAffine(image, matrix, size)
        elif self._degrees == 90:
            image = cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE)
        elif self._degrees == 180:
            image = cv2.rotate(image, cv2.ROTATE_180)
        elif self._degrees == 270:
            image = cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE)
        down = -1 if self._flips_vertically else 1
        across = -1 if self._flips_horizontally else 1
        return image[::down, ::across]


def _known_degrees(degrees: int) -> int:
    return degrees if degrees in (90, 180, 270) else 0


def _first(sides: Any, tag: str, default: Any) -> Any:
    return sides[tag].value if sides.has_tag(tag) else default


def _current(inputs: Any, tag: str, last: Any) -> Any:
    return inputs[tag].value if inputs.has_tag(tag) and not inputs[tag].is_empty() else last
