"""Calculators that make render data of landmarks, rectangles and labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from calculators.core.headers import VideoHeader
from calculators.vision.drawing.connections import FACE
from calculators.vision.drawing.landmark_annotations import (
    LandmarkStyle,
    annotate,
    new_render_data,
)
from calculators.vision.landmarks.landmark_ports import take_one_of
from calculators.vision.landmarks.landmarks import landmarks_of
from calculators.vision.messages import message_type
from calculators.vision.rects.rect_ports import take_one_rect_tag
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_LANDMARKS = "mediapipe.LandmarksToRenderDataCalculatorOptions"
_RECT = "mediapipe.RectToRenderDataCalculatorOptions"
_SCALE = "mediapipe.RectToRenderScaleCalculatorOptions"
_LABELS = "mediapipe.LabelsToRenderDataCalculatorOptions"
_BOTTOM_LEFT = 1


class LandmarksToRenderDataCalculator(Calculator):
    """Makes points and lines of landmarks.

    Inputs:
        NORM_LANDMARKS or LANDMARKS (`Landmarks`).
        RENDER_SCALE (float, optional): lines are so many times as thick.
    Outputs: RENDER_DATA (mediapipe.RenderData).
    Options (mediapipe.LandmarksToRenderDataCalculatorOptions):
        landmark_connections: pairs of places.
        landmark_color, connection_color, thickness: where depth is not shown.
        visualize_landmark_depth: nearer points are larger; default True.
        utilize_visibility, visibility_threshold, utilize_presence, presence_threshold: which
            landmarks are drawn.
        min_depth_circle_thickness, max_depth_circle_thickness, min_depth_line_color,
            max_depth_line_color: the look of depth.
        render_landmarks: draw points too; default True.

    ::

        node {
          calculator: "LandmarksToRenderDataCalculator"
          input_stream: "NORM_LANDMARKS:hand"
          output_stream: "RENDER_DATA:render_data"
          options {
            [mediapipe.LandmarksToRenderDataCalculatorOptions.ext] {
              landmark_connections: [0, 1, 1, 2]
              landmark_color { r: 255 }
              connection_color { g: 255 }
              thickness: 4.0
            }
          }
        }

    Source: MediaPipe ``calculators/util/landmarks_to_render_data_calculator.cc``.
    """

    options = Options(_LANDMARKS)
    #: In place of the option, if there are any.
    connections: ClassVar[tuple[tuple[int, int], ...]] = ()

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_one_of(contract, "NORM_LANDMARKS", "LANDMARKS")
        contract.inputs["RENDER_SCALE"].set(float).optional()
        contract.outputs["RENDER_DATA"].set(message_type("RenderData"))
        contract.require(
            len(contract.options(_LANDMARKS).landmark_connections) % 2 == 0,
            "landmark_connections are pairs, so their number is even",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        places = list(options.landmark_connections)
        self._connections: Iterable[tuple[int, int]] = self.connections or tuple(
            zip(places[::2], places[1::2], strict=True)
        )
        near, far = (0, 0, 0), (255, 255, 255)
        self._style = LandmarkStyle(
            landmark_color=_rgb(options.landmark_color),
            connection_color=_rgb(options.connection_color),
            thickness=options.thickness,
            shows_depth=options.visualize_landmark_depth,
            min_visibility=options.visibility_threshold if options.utilize_visibility else None,
            min_presence=options.presence_threshold if options.utilize_presence else None,
            circles=(options.min_depth_circle_thickness, options.max_depth_circle_thickness),
            near=_rgb(options.min_depth_line_color)
            if options.HasField("min_depth_line_color")
            else near,
            far=_rgb(options.max_depth_line_color)
            if options.HasField("max_depth_line_color")
            else far,
            draws_points=options.render_landmarks,
        )
        (self._tag,) = (tag for tag in cc.inputs.tags() if tag != "RENDER_SCALE")

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[self._tag].is_empty():
            return
        scale = 1.0
        if cc.inputs.has_tag("RENDER_SCALE"):
            if cc.inputs["RENDER_SCALE"].is_empty():
                return
            scale = cc.inputs["RENDER_SCALE"].value
        found = new_render_data()
        landmarks = landmarks_of(cc.inputs[self._tag].value)
        annotate(found, landmarks, self._connections, self._style, scale=scale)
        cc.outputs["RENDER_DATA"].add(found, cc.time)


class FaceLandmarksToRenderDataCalculator(LandmarksToRenderDataCalculator):
    """Makes points and lines of a face's 468 landmarks, with the connections of a face.

    Inputs:
        NORM_LANDMARKS or LANDMARKS (`Landmarks`).
        RENDER_SCALE (float, optional): lines are so many times as thick.
    Outputs: RENDER_DATA (mediapipe.RenderData).
    Options (mediapipe.LandmarksToRenderDataCalculatorOptions): as of
        `LandmarksToRenderDataCalculator`, without landmark_connections.

    ::

        node {
          calculator: "FaceLandmarksToRenderDataCalculator"
          input_stream: "NORM_LANDMARKS:face"
          output_stream: "RENDER_DATA:render_data"
          options {
            [mediapipe.LandmarksToRenderDataCalculatorOptions.ext] {
              landmark_color { r: 255 }
              connection_color { g: 255 }
              visualize_landmark_depth: false
            }
          }
        }

    Source: MediaPipe ``graphs/face_mesh/calculators/face_landmarks_to_render_data_calculator.cc``.
    """

    connections = FACE


class RectToRenderDataCalculator(Calculator):
    """Makes rectangles or ellipses to draw of rectangles.

    Inputs, exactly one: NORM_RECT, RECT, NORM_RECTS, RECTS.
    Outputs: RENDER_DATA (mediapipe.RenderData): in every call, also of an empty list.
    Options (mediapipe.RectToRenderDataCalculatorOptions): filled, color, thickness, oval,
        top_left_thickness.

    ::

        node {
          calculator: "RectToRenderDataCalculator"
          input_stream: "NORM_RECT:roi"
          output_stream: "RENDER_DATA:render_data"
          options {
            [mediapipe.RectToRenderDataCalculatorOptions.ext] { color { g: 255 } thickness: 4.0 }
          }
        }

    Source: MediaPipe ``calculators/util/rect_to_render_data_calculator.cc``.
    """

    options = Options(_RECT)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_one_rect_tag(contract, contract.inputs, "input")
        contract.outputs["RENDER_DATA"].set(message_type("RenderData"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        (tag,) = cc.inputs.tags()
        shard = cc.inputs[tag]
        found = new_render_data()
        if not shard.is_empty():
            for rect in shard.value if tag.endswith("S") else [shard.value]:
                self._add(found, rect, tag.startswith("NORM_"))
        cc.outputs["RENDER_DATA"].add(found, cc.time)

    def _add(self, render_data: Any, rect: Any, is_normalized: bool) -> None:
        options = self.options
        annotation = render_data.render_annotations.add(thickness=options.thickness)
        color = annotation.color
        color.r, color.g, color.b = _rgb(options.color)
        if options.oval:
            oval = annotation.filled_oval.oval if options.filled else annotation.oval
            rectangle = oval.rectangle
        elif options.filled:
            rectangle = annotation.filled_rectangle.rectangle
        else:
            rectangle = annotation.rectangle
            if options.HasField("top_left_thickness"):
                rectangle.top_left_thickness = options.top_left_thickness
        left, top = rect.x_center - rect.width / 2, rect.y_center - rect.height / 2
        right, bottom = left + rect.width, top + rect.height
        is_outside = is_normalized and (left > 1 or right < 0 or top > 1 or bottom < 0)
        if not rect.rotation and is_outside:
            return
        rectangle.normalized = is_normalized
        rectangle.left, rectangle.top = left, top
        rectangle.right, rectangle.bottom = right, bottom
        rectangle.rotation = rect.rotation


class RectToRenderScaleCalculator(Calculator):
    """Sends how thick lines should be for an object of this size.

    Inputs:
        NORM_RECT (mediapipe.NormalizedRect).
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs: RENDER_SCALE (float): the longer side in pixels times multiplier; multiplier itself
        where there is no rectangle.
    Options (mediapipe.RectToRenderScaleCalculatorOptions): multiplier, default 0.01;
        process_timestamp_bounds: send also where no input has a packet.

    ::

        node {
          calculator: "RectToRenderScaleCalculator"
          input_stream: "NORM_RECT:roi"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "RENDER_SCALE:scale"
        }

    Source: MediaPipe ``calculators/util/rect_to_render_scale_calculator.cc``.
    """

    options = Options(_SCALE)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["NORM_RECT"].set(message_type("NormalizedRect"))
        contract.inputs["IMAGE_SIZE"].set(tuple)
        contract.outputs["RENDER_SCALE"].set(float)
        contract.timestamp_offset = 0
        contract.process_timestamp_bounds = contract.options(_SCALE).process_timestamp_bounds

    def process(self, cc: CalculatorContext) -> None:
        scale = float(self.options.multiplier)
        if not cc.inputs["NORM_RECT"].is_empty() and not cc.inputs["IMAGE_SIZE"].is_empty():
            rect = cc.inputs["NORM_RECT"].value
            width, height = cc.inputs["IMAGE_SIZE"].value
            scale *= max(rect.width * width, rect.height * height)
        cc.outputs["RENDER_SCALE"].add(scale, cc.time)


class LabelsToRenderDataCalculator(Calculator):
    """Makes lines of text of labels.

    Inputs:
        CLASSIFICATIONS (mediapipe.ClassificationList), or
        LABELS (list of str) with SCORES (list of float, optional).
        VIDEO_PRESTREAM (`VideoHeader`, optional): the height of the frames, for BOTTOM_LEFT.
    Outputs: RENDER_DATA (mediapipe.RenderData).
    Options (mediapipe.LabelsToRenderDataCalculatorOptions): color (of the lines in turn),
        thickness, font_height_px, font_face, max_num_labels, location, horizontal_offset_px,
        vertical_offset_px, use_display_name, display_classification_score, outline_color,
        outline_thickness.

    ::

        node {
          calculator: "LabelsToRenderDataCalculator"
          input_stream: "CLASSIFICATIONS:handedness"
          output_stream: "RENDER_DATA:render_data"
          options {
            [mediapipe.LabelsToRenderDataCalculatorOptions.ext] { max_num_labels: 1 }
          }
        }

    Source: MediaPipe ``calculators/util/labels_to_render_data_calculator.cc``.
    """

    options = Options(_LABELS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        contract.require(
            inputs.has_tag("CLASSIFICATIONS") is not inputs.has_tag("LABELS"),
            "exactly one of the input streams CLASSIFICATIONS and LABELS is needed",
        )
        inputs["CLASSIFICATIONS"].set(message_type("ClassificationList")).optional()
        inputs["LABELS"].set(list).optional()
        inputs["SCORES"].set(list).optional()
        inputs["VIDEO_PRESTREAM"].set(VideoHeader).optional()
        contract.outputs["RENDER_DATA"].set(message_type("RenderData"))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._height = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("VIDEO_PRESTREAM") and not cc.inputs["VIDEO_PRESTREAM"].is_empty():
            self._height = cc.inputs["VIDEO_PRESTREAM"].value.height
        lines = self._lines(cc)
        if lines is None:
            return
        options = self.options
        step = math.ceil(options.font_height_px * 1.25)
        lines = lines[: options.max_num_labels]
        top = options.vertical_offset_px
        if options.location == _BOTTOM_LEFT:
            top += self._height - len(lines) * step
        found = new_render_data()
        for place, line in enumerate(lines):
            annotation = found.render_annotations.add(thickness=options.thickness)
            colors = options.color
            color = annotation.color
            color.r, color.g, color.b = _rgb(colors[place % len(colors)]) if colors else (255, 0, 0)
            text = annotation.text
            if options.outline_thickness > 0:
                text.outline_thickness = options.outline_thickness
                outline = options.outline_color
                if outline:
                    text.outline_color.CopyFrom(outline[place % len(outline)])
            text.display_text = line
            text.font_height, text.font_face = options.font_height_px, options.font_face
            text.left = options.horizontal_offset_px
            text.baseline = top + (place + 1) * step
        cc.outputs["RENDER_DATA"].add(found, cc.time)

    def _lines(self, cc: CalculatorContext) -> list[str] | None:
        """The text of each label; None if there are none at this timestamp."""
        options = self.options
        if cc.inputs.has_tag("CLASSIFICATIONS"):
            if cc.inputs["CLASSIFICATIONS"].is_empty():
                return None
            shows_score = options.display_classification_score
            return [
                _line(
                    each.display_name if options.use_display_name else each.label,
                    each.score if shows_score else None,
                )
                for each in cc.inputs["CLASSIFICATIONS"].value.classification
            ]
        if cc.inputs["LABELS"].is_empty():
            return None
        labels: list[str] = cc.inputs["LABELS"].value
        scores: list[float | None] = [None] * len(labels)
        if cc.inputs.has_tag("SCORES") and not cc.inputs["SCORES"].is_empty():
            scores = cc.inputs["SCORES"].value
        return [_line(label, score) for label, score in zip(labels, scores, strict=False)]


def _line(label: str, score: float | None) -> str:
    return label if score is None else f"{label}:{score:g}"


def _rgb(color: Any) -> tuple[int, int, int]:
    return color.r, color.g, color.b


RENDER_DATA_CALCULATORS: tuple[type[Calculator], ...] = (
    FaceLandmarksToRenderDataCalculator,
    LabelsToRenderDataCalculator,
    LandmarksToRenderDataCalculator,
    RectToRenderDataCalculator,
    RectToRenderScaleCalculator,
)
