"""AnnotationOverlayCalculator: annotations drawn on the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.drawing import Drawing
from calculators.images.image.image_error import ImageError
from calculators.images.image.image_format import ImageFormat
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import check_image_tags, list_of, message
from calculators.images.image.scaling import check_size
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.AnnotationOverlayCalculatorOptions"
_IMAGES = ("IMAGE", "UIMAGE")


class AnnotationOverlayCalculator(Calculator):
    """Draws on a copy of each image, or on a canvas of one colour.

    Annotations on an SRGBA image are transparent (alpha 0), as in MediaPipe.

    Inputs:
        IMAGE or UIMAGE (`ImageFrame`, optional): SRGB, SRGBA or GRAY8.
        #i (mediapipe.RenderData): any number; drawn in their order.
        VECTOR:i (list of mediapipe.RenderData): any number.
    Outputs: IMAGE or UIMAGE, as the input (`ImageFrame`): of the same format, SRGB for GRAY8.
    Options (mediapipe.AnnotationOverlayCalculatorOptions):
        canvas_width_px, canvas_height_px: required where no image comes in.
        canvas_color: default black.
        flip_text_vertically: draw text upside down.

    ::

        node {
          calculator: "AnnotationOverlayCalculator"
          input_stream: "IMAGE:image"
          input_stream: "render_data"
          output_stream: "IMAGE:annotated_image"
        }

    Source: MediaPipe ``calculators/util/annotation_overlay_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(len(inputs) > 0, "it needs an input stream")
        given = [tag for tag in _IMAGES if inputs.has_tag(tag)]
        sent = [tag for tag in _IMAGES if outputs.has_tag(tag)]
        contract.require(
            len(given) <= 1 and len(sent) == 1 and given in ([], sent),
            "it has one output stream, IMAGE or UIMAGE, and maybe an input stream of the same tag",
        )
        for tag in _IMAGES:
            inputs[tag].set(ImageFrame).optional()
            outputs[tag].set(ImageFrame).optional()
        for index in range(inputs.num_entries("")):
            inputs[index].set(message("RenderData"))
        for index in range(inputs.num_entries("VECTOR")):
            inputs["VECTOR", index].set(list_of("RenderData"))
        options = contract.options(_OPTIONS)
        if not given:
            sizes = (options.canvas_width_px, options.canvas_height_px)
            contract.require(
                options.HasField("canvas_width_px")
                and options.HasField("canvas_height_px")
                and min(sizes) > 0,
                "without an input stream IMAGE, canvas_width_px and canvas_height_px are required, "
                "each above 0",
            )
            try:
                check_size(sizes)
            except ImageError as error:
                contract.require(False, str(error))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._output = next(tag for tag in _IMAGES if cc.outputs.has_tag(tag))
        self._has_input = cc.inputs.has_tag(self._output)
        if self._has_input and not cc.inputs[self._output].header.is_empty():
            cc.outputs[self._output].set_header(cc.inputs[self._output].header)

    def process(self, cc: CalculatorContext) -> None:
        if self._has_input and cc.inputs[self._output].is_empty():
            return
        image = _copy(cc.inputs[self._output].value) if self._has_input else self._canvas()
        drawing = Drawing(image, self.options.flip_text_vertically)
        for (tag, _), shard in zip(cc.inputs.places, cc.inputs.in_order, strict=True):
            if shard.is_empty() or tag in _IMAGES:
                continue
            for render_data in shard.value if tag == "VECTOR" else [shard.value]:
                drawing.draw(render_data)
        image_format = ImageFormat.SRGBA if image.shape[2] == 4 else ImageFormat.SRGB
        cc.outputs[self._output].add(ImageFrame.owning(image_format, image), cc.time)

    def _canvas(self) -> npt.NDArray[np.uint8]:
        options = self.options
        color = options.canvas_color
        image = np.empty((options.canvas_height_px, options.canvas_width_px, 3), np.uint8)
        image[:] = np.clip([color.r, color.g, color.b], 0, 255)
        return image


def _copy(frame: ImageFrame) -> npt.NDArray[Any]:
    if frame.image_format == ImageFormat.GRAY8:
        return np.repeat(frame.pixels, 3, axis=2)
    if frame.image_format in (ImageFormat.SRGB, ImageFormat.SRGBA):
        return frame.pixels.copy()
    raise ImageError(
        f"an image of the format {frame.image_format.name} cannot be drawn on; the formats are "
        f"SRGB, SRGBA and GRAY8"
    )
