"""Irises: their drawing, and their distance from the camera."""

from __future__ import annotations

import io
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from calculators.images.image.packet_types import message_type
from calculators.vision.drawing import new_render_data
from calculators.vision.landmarks.landmarks import landmarks_of, take_landmarks
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

Floats = npt.NDArray[np.float32]

_DEPTH = messages.IrisToDepthCalculatorOptions
_RENDER = messages.IrisToRenderDataCalculatorOptions
#: The landmarks of both irises; of each the centre, right, top, left and bottom.
_COUNT: Final = 10
#: The places of centre, top, bottom, left and right.
_EYES: Final = ((0, 2, 4, 3, 1), (5, 7, 9, 6, 8))
_SIDES: Final = ("left", "right")
_TAGS: Final = ("LEFT_IRIS_DEPTH_MM", "RIGHT_IRIS_DEPTH_MM")
#: An iris is as wide in almost all people.
_MILLIMETERS: Final = 11.8
#: The part of a new depth in the smoothed one.
_SHARE: Final = 0.1
_LINE_HEIGHT: Final = 1.25
_BOTTOM_LEFT: Final = 1


class IrisToDepthCalculator(Calculator):
    """Estimates how far the eyes are from the camera, by the size of their irises.

    Inputs:
        IRIS (`Landmarks`): ten, five of each iris.
        IMAGE_SIZE (tuple): width and height.
    Input side packets, at most one; without a focal length above 0 nothing is sent:
        FOCAL_LENGTH (float): in pixels.
        IMAGE_FILE_PROPERTIES (mediapipe.ImageFileProperties).
    Outputs: LEFT_IRIS_DEPTH_MM, RIGHT_IRIS_DEPTH_MM (float, optional): smoothed over time.
    Options (mediapipe.IrisToDepthCalculatorOptions):
        left_iris_center_index and nine like it: the order of the landmarks.

    ::

        node {
          calculator: "IrisToDepthCalculator"
          input_stream: "IRIS:iris_landmarks"
          input_stream: "IMAGE_SIZE:image_size"
          input_side_packet: "FOCAL_LENGTH:focal_length"
          output_stream: "LEFT_IRIS_DEPTH_MM:left"
        }

    Source: MediaPipe ``graphs/iris_tracking/calculators/iris_to_depth_calculator.cc``.
    """

    options = Options(_DEPTH)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        _take_irises(contract)
        sides = contract.input_side_packets
        contract.require(
            not (sides.has_tag("FOCAL_LENGTH") and sides.has_tag("IMAGE_FILE_PROPERTIES")),
            "the side packets FOCAL_LENGTH and IMAGE_FILE_PROPERTIES exclude each other",
        )
        sides["FOCAL_LENGTH"].set(float).optional()
        sides["IMAGE_FILE_PROPERTIES"].set(message_type("ImageFileProperties")).optional()
        for tag in _TAGS:
            contract.outputs[tag].set(float).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        sides, options = cc.input_side_packets, self.options
        self._focal_length = 0.0
        if sides.has_tag("FOCAL_LENGTH"):
            self._focal_length = sides["FOCAL_LENGTH"].value
        elif sides.has_tag("IMAGE_FILE_PROPERTIES"):
            self._focal_length = sides["IMAGE_FILE_PROPERTIES"].value.focal_length_pixels
        parts = ("center", "top", "bottom", "left", "right")
        self._places = [
            [getattr(options, f"{side}_iris_{part}_index") for part in parts] for side in _SIDES
        ]
        self._depths = [-1.0, -1.0]

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IRIS"].is_empty() or not self._focal_length > 0:
            return
        size = _size(cc)
        points = _pixels(cc, size)
        for eye, (places, tag) in enumerate(zip(self._places, _TAGS, strict=True)):
            iris = points[places]
            across = float(np.hypot(*(iris[0] - np.array(size, np.float32) / 2)))
            diameter = _diameter(iris)
            far = math.hypot(self._focal_length, across)
            depth = _MILLIMETERS * far / diameter if diameter else math.inf
            last = self._depths[eye]
            if 0 <= last < math.inf:
                depth = last * (1 - _SHARE) + depth * _SHARE
            self._depths[eye] = depth
            if cc.outputs.has_tag(tag):
                cc.outputs[tag].add(depth, cc.time)


class IrisToRenderDataCalculator(Calculator):
    """Makes a circle and points of each iris, and text of its distance.

    Inputs:
        IRIS (`Landmarks`): ten, five of each iris.
        IMAGE_SIZE (tuple): width and height.
        LEFT_IRIS_DEPTH_MM, RIGHT_IRIS_DEPTH_MM (float, optional).
    Outputs: RENDER_DATA (mediapipe.RenderData).
    Options (mediapipe.IrisToRenderDataCalculatorOptions):
        oval_color, oval_thickness, landmark_color, landmark_thickness: of circles and points.
        font_height_px, font_face, location, horizontal_offset_px, vertical_offset_px: of the text.

    ::

        node {
          calculator: "IrisToRenderDataCalculator"
          input_stream: "IRIS:iris_landmarks"
          input_stream: "IMAGE_SIZE:image_size"
          output_stream: "RENDER_DATA:render_data"
          options {
            [mediapipe.IrisToRenderDataCalculatorOptions.ext] { oval_color { g: 255 } }
          }
        }

    Source: MediaPipe ``graphs/iris_tracking/calculators/iris_to_render_data_calculator.cc``.
    """

    options = Options(_RENDER)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        _take_irises(contract)
        for tag in _TAGS:
            contract.inputs[tag].set(float).optional()
        contract.outputs["RENDER_DATA"].set(message_type("RenderData"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["IRIS"].is_empty():
            return
        size = _size(cc)
        pixels = _pixels(cc, size)
        found = new_render_data()
        for places in _EYES:
            self._add_iris(found, pixels[list(places)], size)
        lines = []
        for side, tag in zip(_SIDES, _TAGS, strict=True):
            if cc.inputs.has_tag(tag) and not cc.inputs[tag].is_empty():
                depth: float = cc.inputs[tag].value
                if math.isfinite(depth):
                    # As MediaPipe writes it.
                    lines.append(f"{side.capitalize()} : :{math.floor(depth / 10 + 0.5)} cm")
        self._add_text(found, lines, size[1])
        cc.outputs["RENDER_DATA"].add(found, cc.time)

    def _add_iris(self, render_data: Any, iris: Floats, size: tuple[int, int]) -> None:
        options = self.options
        scale = np.array(size, np.float32)
        radius = _diameter(iris) / 2 / scale
        annotation = render_data.render_annotations.add(
            scene_tag="OVAL", thickness=options.oval_thickness
        )
        annotation.color.CopyFrom(options.oval_color)
        rectangle = annotation.oval.rectangle
        points = iris / scale
        rectangle.left, rectangle.top = (points[0] - radius).tolist()
        rectangle.right, rectangle.bottom = (points[0] + radius).tolist()
        rectangle.normalized = True
        for x, y in points.tolist():
            annotation = render_data.render_annotations.add(thickness=options.landmark_thickness)
            annotation.color.CopyFrom(options.landmark_color)
            point = annotation.point
            point.x, point.y, point.normalized = x, y, True

    def _add_text(self, render_data: Any, lines: list[str], height: int) -> None:
        options = self.options
        line_height = math.ceil(options.font_height_px * _LINE_HEIGHT)
        baseline = options.vertical_offset_px
        if options.location == _BOTTOM_LEFT:
            baseline += height - line_height * len(lines)
        else:
            baseline += line_height
        for place, line in enumerate(lines):
            annotation = render_data.render_annotations.add(thickness=5)
            annotation.color.r = 255
            text = annotation.text
            text.display_text, text.font_face = line, options.font_face
            text.font_height, text.left = options.font_height_px, options.horizontal_offset_px
            text.baseline = baseline + place * line_height


def _take_irises(contract: CalculatorContract) -> None:
    take_landmarks(contract.inputs["IRIS"])
    contract.inputs["IMAGE_SIZE"].set(tuple)


def _size(cc: CalculatorContext) -> tuple[int, int]:
    if cc.inputs["IMAGE_SIZE"].is_empty():
        raise GraphError("IRIS came without an IMAGE_SIZE", code=Code.INVALID_ARGUMENT)
    size: tuple[int, int] = cc.inputs["IMAGE_SIZE"].value
    return size


def _pixels(cc: CalculatorContext, size: tuple[int, int]) -> Floats:
    """Return the landmarks of both irises in pixels, (10, 2)."""
    landmarks = landmarks_of(cc.inputs["IRIS"].value)
    if len(landmarks) != _COUNT:
        raise GraphError(
            f"two irises have {_COUNT} landmarks, not {len(landmarks)}", code=Code.INVALID_ARGUMENT
        )
    return landmarks.values[:, :2] * np.array(size, np.float32)


def _diameter(iris: Floats) -> float:
    """Return an iris's mean diameter in pixels.

    ``iris``: (5, 2), in pixels: centre, top, bottom, left, right.
    """
    return float(np.hypot(*(iris[1] - iris[2])) + np.hypot(*(iris[3] - iris[4]))) / 2


IRISES: tuple[type[Calculator], ...] = (IrisToDepthCalculator, IrisToRenderDataCalculator)


#: EXIF's directory of the exposure, and its tags of the focal length.
_EXPOSURE: Final = 0x8769
_FOCAL_LENGTH: Final = 0x920A
_FOCAL_LENGTH_35MM: Final = 0xA405
#: Millimeters from corner to corner of a film of 35 mm.
_DIAGONAL_35MM: Final = math.hypot(36.0, 24.0)


class ImageFilePropertiesCalculator(Calculator):
    """Reads the size and focal length of a JPEG with EXIF.

    Inputs: index 0 (bytes), or the side packet of index 0 (bytes): the file.
    Outputs: index 0, for a stream, or a side packet, of the first file
        (mediapipe.ImageFileProperties).
    Options: none.

    ::

        node {
          calculator: "ImageFilePropertiesCalculator"
          input_side_packet: "image_bytes"
          output_side_packet: "image_properties"
        }

    Source: MediaPipe ``calculators/images/image/image_file_properties_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        kind = message_type("ImageFileProperties")
        for streams, sides, accepted in (
            (contract.inputs, contract.input_side_packets, bytes),
            (contract.outputs, contract.output_side_packets, kind),
        ):
            contract.require(
                len(streams) + len(sides) == 1, "one stream or one side packet goes in, and one out"
            )
            for ports in (streams, sides):
                if len(ports):
                    ports[0].set(accepted)
        contract.require(
            len(contract.inputs) >= len(contract.outputs),
            "a stream comes of a stream; of a side packet comes a side packet",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._is_sent = False
        if len(cc.input_side_packets):
            self._send(cc, cc.input_side_packets[0].value)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs[0].is_empty():
            self._send(cc, cc.inputs[0].value)

    def _send(self, cc: CalculatorContext, content: bytes) -> None:
        properties = image_file_properties(content)
        if len(cc.outputs):
            cc.outputs[0].add(properties, cc.time)
        elif not self._is_sent:
            # A side packet is there once: that of the first file.
            self._is_sent = True
            cc.output_side_packets[0].set(properties)


def image_file_properties(content: bytes) -> Any:
    """Return the mediapipe.ImageFileProperties of an image file.

    Raises:
        GraphError: it is not an image, or does not say the focal length (INVALID_ARGUMENT).
    """
    try:
        with Pillow.open(io.BytesIO(content)) as image:
            width, height = image.size
            exposure = image.getexif().get_ifd(_EXPOSURE)
            length = float(exposure.get(_FOCAL_LENGTH, 0))
            length_35mm = float(exposure.get(_FOCAL_LENGTH_35MM, 0))
    except (UnidentifiedImageError, OSError, ValueError, ZeroDivisionError, SyntaxError) as error:
        raise GraphError("the bytes are not an image file", code=Code.INVALID_ARGUMENT) from error
    if not (length > 0 and length_35mm > 0):
        raise GraphError(
            "the image file does not say the focal length of the camera (EXIF FocalLength and "
            "FocalLengthIn35mmFilm)",
            code=Code.INVALID_ARGUMENT,
        )
    diagonal = _DIAGONAL_35MM / length_35mm * length
    sensor_width = diagonal / math.hypot(1, min(width, height) / max(width, height))
    return message_type("ImageFileProperties")(
        image_width=width,
        image_height=height,
        focal_length_mm=length,
        focal_length_35mm=length_35mm,
        focal_length_pixels=max(width, height) * length / sensor_width,
    )
