"""Results of solutions as render data, and drawn on the image.

Render data are mediapipe.RenderData: points, lines, rectangles and texts, which
`calculators.images.image.drawing` draws on a frame. The calculators here make them of landmarks,
rectangles and labels; `drawn` does both for the result of a solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from calculators.core.headers import VideoHeader
from calculators.images.image.drawing import Canvas
from calculators.images.image.packet_types import message_type
from calculators.vision.landmarks.landmarks import (
    PRESENCE,
    VISIBILITY,
    Landmarks,
    Z,
    landmarks_of,
    take_one_of,
)
from calculators.vision.regions import SMALLEST, take_one_rect_tag
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

Connections = tuple[tuple[int, int], ...]


def _chains(*chains: tuple[int, ...]) -> Connections:
    return tuple(pair for chain in chains for pair in pairwise(chain))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


#: 33 landmarks of a pose.
POSE: Final = _chains(
    (0, 1, 2, 3, 7),
    (0, 4, 5, 6, 8),
    (9, 10),
    (11, 12),
    (11, 13, 15, 17, 19, 15, 21),
    (12, 14, 16, 18, 20, 16, 22),
    (11, 23, 25, 27, 29, 31, 27),
    (12, 24, 26, 28, 30, 32, 28),
    (23, 24),
)
#: 21 landmarks of a hand.
HAND: Final = _chains(
    (0, 1, 2, 3, 4),
    (0, 5, 6, 7, 8),
    (5, 9, 10, 11, 12),
    (9, 13, 14, 15, 16),
    (13, 17, 18, 19, 20),
    (0, 17),
)
LIPS: Final = _chains(
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
)
LEFT_EYE: Final = _chains(
    (263, 249, 390, 373, 374, 380, 381, 382, 362),
    (263, 466, 388, 387, 386, 385, 384, 398, 362),
)
LEFT_EYEBROW: Final = _chains((276, 283, 282, 295, 285), (300, 293, 334, 296, 336))
RIGHT_EYE: Final = _chains(
    (33, 7, 163, 144, 145, 153, 154, 155, 133),
    (33, 246, 161, 160, 159, 158, 157, 173, 133),
)
RIGHT_EYEBROW: Final = _chains((46, 53, 52, 65, 55), (70, 63, 105, 66, 107))
FACE_OVAL: Final = _chains(
    _numbers(
        "10 338 297 332 284 251 389 356 454 323 361 288 397 365 379 378 400 377 "
        "152 148 176 149 150 136 172 58 132 93 234 127 162 21 54 103 67 109 10"
    )
)
IRISES: Final = _chains((469, 470, 471, 472, 469), (474, 475, 476, 477, 474))
#: 468 landmarks of a face.
FACE: Final = LIPS + LEFT_EYE + LEFT_EYEBROW + RIGHT_EYE + RIGHT_EYEBROW + FACE_OVAL


Color = tuple[int, int, int]

#: Depths that differ by less are none.
_SMALLEST_DEPTH: Final = 1e-3


@dataclass(frozen=True)
class LandmarkStyle:
    """The look of landmarks: mediapipe.LandmarksToRenderDataCalculatorOptions as values.

    Attributes:
        landmark_color, connection_color: RGB.
        thickness: of lines, and radius of points, in pixels.
        shows_depth: nearer points are larger, nearer ends of lines darker.
        min_visibility, min_presence: landmarks below are left out; None: all are drawn.
        circles: radius of the farthest and of the nearest point.
        near, far: colors of the nearest and of the farthest end of a line.
        draws_points: draw points too, and not only lines.
    """

    landmark_color: Color = (0, 0, 0)
    connection_color: Color = (0, 0, 0)
    thickness: float = 1.0
    shows_depth: bool = True
    min_visibility: float | None = None
    min_presence: float | None = None
    circles: tuple[float, float] = (0.0, 18.0)
    near: Color = (0, 0, 0)
    far: Color = (255, 255, 255)
    draws_points: bool = True


def annotate(
    render_data: Any,
    landmarks: Landmarks,
    connections: Iterable[Sequence[int]],
    style: LandmarkStyle,
    *,
    scale: float = 1.0,
) -> None:
    """Add landmarks and the lines between them to a mediapipe.RenderData."""
    thickness = style.thickness * scale
    visible = _visible(landmarks, style)
    depth = _depth(landmarks) if style.shows_depth else None
    points = landmarks.values[:, :2].tolist()
    is_normalized = landmarks.is_normalized
    for first, second in connections:
        if max(first, second) >= len(points) or not (visible[first] and visible[second]):
            continue
        annotation = render_data.render_annotations.add(thickness=thickness)
        line = annotation.line if depth is None else annotation.gradient_line
        line.x_start, line.y_start = points[first]
        line.x_end, line.y_end = points[second]
        line.normalized = is_normalized
        if depth is None:
            _set_color(annotation.color, style.connection_color)
        else:
            _set_color(line.color1, _mixed(style.near, style.far, float(depth[first])))
            _set_color(line.color2, _mixed(style.near, style.far, float(depth[second])))
    if style.draws_points:
        _add_points(render_data, landmarks, visible, depth, style, thickness)


def _add_points(
    render_data: Any,
    landmarks: Landmarks,
    visible: npt.NDArray[np.bool_],
    depth: npt.NDArray[np.float64] | None,
    style: LandmarkStyle,
    thickness: float,
) -> None:
    smallest, largest = style.circles
    for place, (x, y) in enumerate(landmarks.values[:, :2].tolist()):
        if not visible[place]:
            continue
        annotation = render_data.render_annotations.add(thickness=thickness)
        point = annotation.point
        point.x, point.y, point.normalized = x, y, landmarks.is_normalized
        if depth is None:
            _set_color(annotation.color, style.landmark_color)
        else:
            part = float(depth[place])
            gray = 255 - int(255 * part)
            annotation.thickness = int(smallest + (1 - part) * (largest - smallest))
            _set_color(annotation.color, (gray, gray, gray))


def _visible(landmarks: Landmarks, style: LandmarkStyle) -> npt.NDArray[np.bool_]:
    found = np.ones(len(landmarks), np.bool_)
    if style.min_visibility is not None and landmarks.has_visibility:
        found &= landmarks.values[:, VISIBILITY] >= style.min_visibility
    if style.min_presence is not None and landmarks.has_presence:
        found &= landmarks.values[:, PRESENCE] >= style.min_presence
    return found


def _depth(landmarks: Landmarks) -> npt.NDArray[np.float64] | None:
    """Return depths (n,) from 0, the nearest, to 1; None if all are equally far."""
    z = landmarks.values[:, Z].astype(np.float64)
    if not len(z):
        return None
    low, high = float(z.min()), max(float(z.max()), SMALLEST)
    if not high - low > _SMALLEST_DEPTH:
        return None
    found: npt.NDArray[np.float64] = (z - low) / (high - low + 1e-6)
    return found


def _mixed(near: Color, far: Color, part: float) -> Color:
    red, green, blue = (int(a * part + b * (1 - part)) for a, b in zip(near, far, strict=True))
    return red, green, blue


def _set_color(color: Any, value: Color) -> None:
    color.r, color.g, color.b = value


def new_render_data() -> Any:
    """Make an empty mediapipe.RenderData."""
    return message_type("RenderData")()


_LANDMARKS = messages.LandmarksToRenderDataCalculatorOptions
_RECT = messages.RectToRenderDataCalculatorOptions
_SCALE = messages.RectToRenderScaleCalculatorOptions
_LABELS = messages.LabelsToRenderDataCalculatorOptions
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
        # As in MediaPipe: the annotation of a rectangle outside the image stays, and is empty.
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
        # MediaPipe's distance between lines, for a font of this height.
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
        """Return the text of each label; None if there are none at this timestamp."""
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


Image = npt.NDArray[np.uint8]

_WHITE: Final = (255, 255, 255)
_POINTS: Final = LandmarkStyle(
    landmark_color=(255, 70, 40),
    connection_color=_WHITE,
    thickness=2.0,
    shows_depth=False,
    min_visibility=0.5,
)
_LINES: Final = LandmarkStyle(
    connection_color=(90, 230, 200), thickness=1.0, shows_depth=False, draws_points=False
)
#: By the number of landmarks.
_STYLES: Final[Mapping[int, tuple[Connections, LandmarkStyle]]] = {
    21: (HAND, _POINTS),
    33: (POSE, _POINTS),
    468: (FACE, _LINES),
    478: (FACE + IRISES, _LINES),
}
#: The part of an image's color that stays where no person is.
_BACKGROUND: Final = 0.35


def drawn(image: Image, result: tuple[Any, ...]) -> Image:
    """Return a copy of an image with what a solution has found in it.

    Landmarks are points and lines, faces of `FaceDetection` boxes, and where there is a mask the
    background is dark.

    Args:
        image: (height, width, 3) of uint8, RGB: the one that the solution has processed.
        result: of its ``process``.
    """
    canvas = image.copy()
    mask = getattr(result, "segmentation_mask", None)
    if mask is not None:
        weight = _BACKGROUND + (1 - _BACKGROUND) * mask[:, :, np.newaxis]
        canvas = (canvas * weight).astype(np.uint8)
    found = new_render_data()
    landmarks = [each for each in _parts(result) if isinstance(each, Landmarks)]
    for each in landmarks:
        lines, style = _STYLES.get(len(each), ((), _POINTS))
        if each.is_normalized:
            annotate(found, each, lines, style, scale=max(image.shape[0] / 480, 1))
    if not landmarks:
        for detection in getattr(result, "detections", None) or ():
            _add_detection(found, detection)
    Canvas(canvas, flips_text=False).draw(found)
    return canvas


def _parts(result: Iterable[Any]) -> Iterable[Any]:
    for value in result:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _add_detection(render_data: Any, detection: Any) -> None:
    location = detection.location_data
    box = location.relative_bounding_box
    annotation = render_data.render_annotations.add(thickness=2)
    rectangle = annotation.rectangle
    rectangle.left, rectangle.top, rectangle.normalized = box.xmin, box.ymin, True
    rectangle.right, rectangle.bottom = box.xmin + box.width, box.ymin + box.height
    _set_white(annotation.color)
    for keypoint in location.relative_keypoints:
        annotation = render_data.render_annotations.add(thickness=2)
        point = annotation.point
        point.x, point.y, point.normalized = keypoint.x, keypoint.y, True
        color = annotation.color
        color.r, color.g, color.b = _POINTS.landmark_color


def _set_white(color: Any) -> None:
    color.r, color.g, color.b = _WHITE
