"""RectTransformationCalculator: rectangles moved, scaled and made square."""

from __future__ import annotations

import math
from typing import Any

from calculators.vision.messages import message_type, normalized_rect
from calculators.vision.rects.rect_ports import (
    normalize_radians,
    rect_type,
    take_one_rect_tag,
)
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.RectTransformationCalculatorOptions"


class RectTransformationCalculator(Calculator):
    """Moves rectangles in their own direction, then makes them square, then scales them.

    Inputs, exactly one of the first four:
        NORM_RECT, RECT, NORM_RECTS, RECTS (mediapipe.NormalizedRect, mediapipe.Rect, lists).
        IMAGE_SIZE (tuple): width and height in pixels; needed for normalized rectangles.
    Outputs: #0: of the input's type.
    Options (mediapipe.RectTransformationCalculatorOptions):
        shift_x, shift_y: in widths and heights of the rectangle.
        rotation or rotation_degrees: turns the shift; the rectangle keeps its own rotation.
        square_long or square_short: both sides become the longer or the shorter one, in pixels.
        scale_x, scale_y: default 1.

    ::

        node {
          calculator: "RectTransformationCalculator"
          input_stream: "NORM_RECT:face_rect"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "roi"
          options {
            [mediapipe.RectTransformationCalculatorOptions.ext] {
              scale_x: 1.5
              scale_y: 1.5
              square_long: true
            }
          }
        }

    Source: MediaPipe ``calculators/util/rect_transformation_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        tag = take_one_rect_tag(contract, contract.inputs, "input")
        contract.inputs["IMAGE_SIZE"].set(tuple).optional()
        contract.require(
            not tag.startswith("NORM_") or contract.inputs.has_tag("IMAGE_SIZE"),
            f"{tag} needs the input stream IMAGE_SIZE",
        )
        contract.outputs[0].set(rect_type(tag))
        options = contract.options(_OPTIONS)
        for one, other in (("rotation", "rotation_degrees"), ("square_long", "square_short")):
            contract.require(
                not (options.HasField(one) and options.HasField(other)),
                f"{one} and {other} exclude each other",
            )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._turn: float = options.rotation
        if options.HasField("rotation_degrees"):
            self._turn = math.pi * options.rotation_degrees / 180
        (self._tag,) = (tag for tag in cc.inputs.tags() if tag != "IMAGE_SIZE")

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[self._tag].is_empty():
            return
        size = (1, 1)
        if self._tag.startswith("NORM_"):
            if cc.inputs["IMAGE_SIZE"].is_empty():
                return
            size = cc.inputs["IMAGE_SIZE"].value
        value = cc.inputs[self._tag].value
        if self._tag.endswith("S"):
            cc.outputs[0].add([self._moved(rect, size) for rect in value], cc.time)
        else:
            cc.outputs[0].add(self._moved(value, size), cc.time)

    def _moved(self, rect: Any, size: tuple[int, int]) -> Any:
        options = self.options
        width_px, height_px = size
        angle = rect.rotation
        if self._turn:
            angle = normalize_radians(angle + self._turn)
        right = rect.width * width_px * options.shift_x
        down = rect.height * height_px * options.shift_y
        cos, sin = math.cos(angle), math.sin(angle)
        x = rect.x_center + (right * cos - down * sin) / width_px
        y = rect.y_center + (right * sin + down * cos) / height_px
        width, height = rect.width, rect.height
        if options.square_long or options.square_short:
            choose = max if options.square_long else min
            side = choose(width * width_px, height * height_px)
            width, height = side / width_px, side / height_px
        width, height = width * options.scale_x, height * options.scale_y
        if self._tag.startswith("NORM_"):
            return normalized_rect(x, y, width, height, rect.rotation)
        return message_type("Rect")(
            x_center=int(x),
            y_center=int(y),
            width=int(width),
            height=int(height),
            rotation=rect.rotation,
        )
