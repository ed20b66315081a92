"""Render data: made of detections, and drawn on an image.

mediapipe.RenderData are points, lines, rectangles and texts with colors, in pixels or in fractions
of the image. `DetectionsToRenderDataCalculator` makes them of detections; calculators of other
families make them of what they find. A `Canvas` draws them on one frame, and
`AnnotationOverlayCalculator` is the node that does so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.detections import RELATIVE_BOUNDING_BOX
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import check_opencv, opencv
from calculators.images.image.packet_types import check_image_tags, list_of, message_type
from calculators.images.image.scaling import check_size
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

_DETECTIONS_OPTIONS = messages.DetectionsToRenderDataCalculatorOptions
_BOUNDING_BOX = 1
#: The maximum ratio of a label's line to the box's height.
_LINE_HEIGHT = 0.1


class DetectionsToRenderDataCalculator(Calculator):
    """Draws a box for each detection, with labels and scores at its top, and its keypoints.

    Inputs, at least one:
        DETECTION (mediapipe.Detection).
        DETECTIONS (list of mediapipe.Detection).
        DETECTION_LIST (mediapipe.DetectionList).
    Outputs: RENDER_DATA (mediapipe.RenderData): texts, a rectangle and points per detection.
    Options (mediapipe.DetectionsToRenderDataCalculatorOptions):
        produce_empty_packet: send render data even without detections; default true.
        text_delimiter: follows each label and each score; default ",".
        one_label_per_line.
        text: the style of labels; for relative boxes, the font's height depends on the box.
        thickness, color: of lines, in pixels; default 1, black.
        scene_class: a name for the drawing; default "DETECTION".
        render_detection_id: a first line with the detection's id.

    ::

        node {
          calculator: "DetectionsToRenderDataCalculator"
          input_stream: "DETECTIONS:detections"
          output_stream: "RENDER_DATA:render_data"
          node_options {
            [type.googleapis.com/mediapipe.DetectionsToRenderDataCalculatorOptions] {
              thickness: 4.0
              color { r: 255 g: 0 b: 0 }
            }
          }
        }

    Source: MediaPipe ``calculators/util/detections_to_render_data_calculator.cc``.
    """

    options = Options(_DETECTIONS_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        contract.require(
            any(map(inputs.has_tag, ("DETECTION", "DETECTIONS", "DETECTION_LIST"))),
            "one of the input streams DETECTION, DETECTIONS and DETECTION_LIST is needed",
        )
        inputs["DETECTION"].set(message_type("Detection")).optional()
        inputs["DETECTIONS"].set(list_of("Detection")).optional()
        inputs["DETECTION_LIST"].set(message_type("DetectionList")).optional()
        contract.outputs["RENDER_DATA"].set(message_type("RenderData"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        detections = list(_detections(cc))
        if not detections and not self.options.produce_empty_packet:
            return
        found = message_type("RenderData")(scene_class=self.options.scene_class)
        for detection in detections:
            self._add(found, detection)
        cc.outputs["RENDER_DATA"].add(found, cc.time)

    def _add(self, found: Any, detection: Any) -> None:
        location = detection.location_data
        if location.format not in (_BOUNDING_BOX, RELATIVE_BOUNDING_BOX):
            raise ImageError("only detections with BOUNDING_BOX or RELATIVE_BOUNDING_BOX are drawn")
        is_relative = location.format == RELATIVE_BOUNDING_BOX
        box = location.relative_bounding_box if is_relative else location.bounding_box
        line: float = self.options.text.font_height
        if is_relative:
            labels = max(len(detection.label), len(detection.label_id))
            line = float(np.float32(box.height * min(_LINE_HEIGHT, 1 / (labels + 1))))
        for number, text in enumerate(self._texts(detection), 1):
            annotation = self._annotation(found, "LABEL")
            annotation.text.CopyFrom(self.options.text)
            annotation.text.display_text = text
            _place_text(annotation.text, is_relative, box.xmin, box.ymin + number * line, line)
        annotation = self._annotation(found, "FEATURE")
        annotation.text.display_text = detection.feature_tag
        _place_text(annotation.text, is_relative, box.xmin, box.ymin + box.height, line)
        _place_box(self._annotation(found, "LOCATION").rectangle, is_relative, box)
        for keypoint in location.relative_keypoints if is_relative else ():
            point = self._annotation(found, "KEYPOINT").point
            point.normalized, point.x, point.y = True, keypoint.x, keypoint.y

    def _annotation(self, found: Any, scene_tag: str) -> Any:
        color = self.options.color
        annotation = found.render_annotations.add(
            scene_tag=scene_tag, thickness=self.options.thickness
        )
        annotation.color.r, annotation.color.g, annotation.color.b = color.r, color.g, color.b
        return annotation

    def _texts(self, detection: Any) -> list[str]:
        """Return the lines at the top of the box."""
        ids, names, scores = (
            list(detection.label_id),
            list(detection.label),
            list(detection.score),
        )
        if (ids and names and len(ids) != len(names)) or len(scores) != max(len(ids), len(names)):
            raise ImageError(
                f"a detection has {len(scores)} scores for {len(names)} labels and {len(ids)} "
                f"label ids; each label needs one"
            )
        mark = self.options.text_delimiter
        texts = [
            f"{label}{mark}{_shown(score)}{mark}"
            for label, score in zip(names or ids, scores, strict=True)
        ]
        first = [f"Id: {detection.detection_id}"] if self.options.render_detection_id else []
        return first + (texts if self.options.one_label_per_line else ["".join(texts)])


def _detections(cc: CalculatorContext) -> Iterator[Any]:
    inputs = cc.inputs
    if inputs.has_tag("DETECTION_LIST") and not inputs["DETECTION_LIST"].is_empty():
        yield from inputs["DETECTION_LIST"].value.detection
    if inputs.has_tag("DETECTIONS") and not inputs["DETECTIONS"].is_empty():
        yield from inputs["DETECTIONS"].value
    if inputs.has_tag("DETECTION") and not inputs["DETECTION"].is_empty():
        yield inputs["DETECTION"].value


def _shown(score: float) -> str:
    """Return the score as text, rounded to two digits."""
    hundredths = np.floor(np.float32(score) * np.float32(100) + np.float32(0.5))
    return f"{float(hundredths / np.float32(100)):.6g}"


def _place_text(text: Any, is_relative: bool, left: float, baseline: float, line: float) -> None:
    if is_relative:
        text.font_height = line * 0.9
        left, baseline = max(left, 0.0), min(baseline, 1.0)
    text.normalized, text.left, text.baseline = is_relative, left, baseline


def _place_box(rectangle: Any, is_relative: bool, box: Any) -> None:
    """Set the rectangle to the box; leave it as it is if the box is out of sight."""
    right, bottom = box.xmin + box.width, box.ymin + box.height
    if right < 0 or bottom < 0 or (is_relative and (box.xmin > 1 or box.ymin > 1)):
        return
    rectangle.normalized = is_relative
    rectangle.left = max(box.xmin, 0.0) if is_relative else box.xmin
    rectangle.top = max(box.ymin, 0.0) if is_relative else box.ymin
    rectangle.right = min(right, 1.0) if is_relative else right
    rectangle.bottom = min(bottom, 1.0) if is_relative else bottom


Ints = npt.NDArray[np.int64]


def draw_gradient(
    image: npt.NDArray[np.uint8],
    ends: tuple[Point, Point],
    colors: npt.NDArray[np.float64],
    thickness: int,
) -> None:
    """Draw a line in place: a square of one color at each of its pixels.

    Args:
        image: (height, width, channels).
        ends: in pixels.
        colors: (2, 3): at the two ends.
        thickness: side of the squares, whose top left corners are the line's pixels.

    Source: MediaPipe ``util/annotation_renderer.cc``.
    """
    height, width = image.shape[:2]
    # OpenCV's iterator begins where the line enters the image, and so do the colors.
    is_visible, start, end = opencv().clipLine((0, 0, width, height), *ends)
    if not is_visible:
        return
    (x, y), signs = _pixels(start, end)
    part = np.arange(len(x))[:, np.newaxis] / len(x)
    mixed = np.rint(colors[0] * (1 - part) + colors[1] * part).astype(np.uint8)
    # The square of a later pixel is over that of an earlier one, so a square's leading rows and
    # columns come first.
    sides = [range(thickness - 1, -1, -1) if sign > 0 else range(thickness) for sign in signs]
    for across in sides[0]:
        for down in sides[1]:
            columns, rows = x + across, y + down
            inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
            image[rows[inside], columns[inside], :3] = mixed[inside]


def _pixels(start: Point, end: Point) -> tuple[tuple[Ints, Ints], tuple[int, int]]:
    """Return the pixels of a line as 4-connected neighbours, and its direction along both axes.

    OpenCV's ``LineIterator`` visits the same pixels.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    signs = (1 if dx >= 0 else -1, 1 if dy >= 0 else -1)
    long, short = max(abs(dx), abs(dy)), min(abs(dx), abs(dy))
    steps = np.arange(long + 1, dtype=np.int64)
    # After each step along the longer axis, at most one along the shorter.
    sides = -(-short * steps // max(long, 1))
    turns = np.flatnonzero(np.diff(sides)) + 1
    main = np.insert(steps, turns, steps[turns])
    other = np.insert(sides, turns, sides[turns - 1])
    along_x, along_y = (main, other) if abs(dx) >= abs(dy) else (other, main)
    return (start[0] + signs[0] * along_x, start[1] + signs[1] * along_y), signs


Point = tuple[int, int]
_MAX_THICKNESS: Final = 32767
#: Farther than any image reaches, and within the range that OpenCV can compute with.
_FAR: Final = 1 << 20
#: The height of the letters of each font, by its number, in units of the font's size.
_FONT_HEIGHTS: Final = (21, 9, 21, 21, 21, 13, 21, 21)


class Canvas:
    """Draws on ``image``, (height, width, 3 or 4) of uint8, in place.

    Source: MediaPipe ``util/annotation_renderer.cc``.
    """

    def __init__(self, image: npt.NDArray[np.uint8], flips_text: bool) -> None:
        self._image = image
        self._flips_text = flips_text
        self._height, self._width = image.shape[:2]
        self._cv2 = opencv()

    def draw(self, render_data: Any) -> None:
        """Draw a mediapipe.RenderData.

        Raises:
            ImageError: an annotation is of an unknown kind, or its numbers are not finite.
        """
        for annotation in render_data.render_annotations:
            kind = annotation.WhichOneof("data")
            draw = getattr(self, f"_draw_{kind}", None)
            if draw is None:
                raise ImageError(f"an annotation of the kind {kind} cannot be drawn")
            draw(annotation, getattr(annotation, kind))

    def _draw_rectangle(self, annotation: Any, rectangle: Any) -> None:
        left, top, right, bottom = self._corners(rectangle)
        color, thickness = _color(annotation.color), _thickness(annotation.thickness)
        points = _turned(left, top, right, bottom, rectangle.rotation)
        if rectangle.rotation:
            for index in range(4):
                start, end = _whole(points[index]), _whole(points[(index + 1) % 4])
                self._cv2.line(self._image, start, end, color, thickness)
        else:
            box = (left, top, right - left, bottom - top)
            self._cv2.rectangle(self._image, box, color, thickness)
        if rectangle.HasField("top_left_thickness"):
            radius = _thickness(rectangle.top_left_thickness)
            self._cv2.ellipse(
                self._image, _whole(points[1]), (radius, radius), 0, 0, 360, color, -1
            )

    def _draw_filled_rectangle(self, annotation: Any, filled: Any) -> None:
        left, top, right, bottom = self._corners(filled.rectangle)
        color = _color(annotation.color)
        if filled.rectangle.rotation:
            points = _turned(left, top, right, bottom, filled.rectangle.rotation)
            corners = np.array([_whole(point) for point in points], np.int32)
            self._cv2.fillConvexPoly(self._image, corners, color)
        else:
            box = (left, top, right - left, bottom - top)
            self._cv2.rectangle(self._image, box, color, -1)

    def _draw_rounded_rectangle(self, annotation: Any, rounded: Any) -> None:
        self._round(rounded, _color(annotation.color), _thickness(annotation.thickness))

    def _draw_filled_rounded_rectangle(self, annotation: Any, filled: Any) -> None:
        self._round(filled.rounded_rectangle, _color(annotation.color), -1)

    def _round(self, rounded: Any, color: tuple[int, int, int], thickness: int) -> None:
        left, top, right, bottom = self._corners(rounded.rectangle)
        radius, kind = rounded.corner_radius, rounded.line_type
        if not 0 <= radius < _FAR or kind not in (-1, 4, 8, 16):
            raise ImageError("a rounded rectangle needs a radius and one of OpenCV's line types")
        if thickness > 0 or kind != -1:
            lines = (
                ((left + radius, top), (right - radius, top)),
                ((right, top + radius), (right, bottom - radius)),
                ((left + radius, bottom), (right - radius, bottom)),
                ((left, top + radius), (left, bottom - radius)),
            )
            for start, end in lines:
                self._cv2.line(self._image, start, end, color, max(thickness, 1), max(kind, 4))
        arcs = (
            ((left + radius, top + radius), 180),
            ((right - radius, top + radius), 270),
            ((right - radius, bottom - radius), 0),
            ((left + radius, bottom - radius), 90),
        )
        for centre, angle in arcs:
            self._cv2.ellipse(
                *(self._image, centre, (radius, radius), angle, 0, 90, color, thickness),
                max(kind, 4),
            )

    def _draw_oval(self, annotation: Any, oval: Any) -> None:
        self._ellipse(oval.rectangle, annotation, _thickness(annotation.thickness))

    def _draw_filled_oval(self, annotation: Any, filled: Any) -> None:
        self._ellipse(filled.oval.rectangle, annotation, -1)

    def _ellipse(self, rectangle: Any, annotation: Any, thickness: int) -> None:
        left, top, right, bottom = self._corners(rectangle)
        centre = (int((left + right) / 2), int((top + bottom) / 2))
        axes = (max(0, int((right - left) / 2)), max(0, int((bottom - top) / 2)))
        angle = math.degrees(rectangle.rotation)
        color = _color(annotation.color)
        self._cv2.ellipse(self._image, centre, axes, angle, 0, 360, color, thickness)

    def _draw_point(self, annotation: Any, point: Any) -> None:
        centre = self._place(point.x, point.y, point.normalized)
        radius = _thickness(annotation.thickness)
        self._cv2.circle(self._image, centre, radius, _color(annotation.color), -1)

    def _draw_scribble(self, annotation: Any, scribble: Any) -> None:
        for point in scribble.point:
            self._draw_point(annotation, point)

    def _draw_line(self, annotation: Any, line: Any) -> None:
        self._segment(annotation, *self._ends(line))

    def _draw_gradient_line(self, annotation: Any, line: Any) -> None:
        colors = np.array([_color(line.color1), _color(line.color2)], np.float64)
        draw_gradient(self._image, self._ends(line), colors, _thickness(annotation.thickness))

    def _draw_arrow(self, annotation: Any, arrow: Any) -> None:
        start, end = self._ends(arrow)
        self._segment(annotation, start, end)
        # The tip's lines are a fifth as long, at 45 degrees.
        across, down = (end[0] - start[0]) / 5, (end[1] - start[1]) / 5
        for side in (1, -1):
            tip = (end[0] - across - side * down, end[1] - down + side * across)
            self._segment(annotation, (_rounded(tip[0]), _rounded(tip[1])), end)

    def _segment(self, annotation: Any, start: Point, end: Point) -> None:
        thickness = _thickness(annotation.thickness)
        self._cv2.line(self._image, start, end, _color(annotation.color), thickness)

    def _draw_text(self, annotation: Any, text: Any) -> None:
        if not 0 <= text.font_face < len(_FONT_HEIGHTS):
            raise ImageError(f"font_face is 0 to {len(_FONT_HEIGHTS) - 1}, not {text.font_face}")
        left, baseline = self._place(text.left, text.baseline, text.normalized)
        size = text.font_height * self._height if text.normalized else text.font_height
        height = _rounded(size) if text.normalized else _cut(size)
        thickness = _thickness(annotation.thickness)
        scale = (height - (thickness + 1) / 2) / _FONT_HEIGHTS[text.font_face]
        written = self._cv2.getTextSize(text.display_text, text.font_face, scale, thickness)[0]
        if text.center_horizontally:
            left -= written[0] // 2
        if text.center_vertically:
            baseline += written[1] // 2
        layers = [(_color(annotation.color), thickness)]
        if text.outline_thickness > 0:
            width = _thickness(annotation.thickness + 2 * text.outline_thickness)
            layers.insert(0, (_color(text.outline_color), width))
        for color, width in layers:
            self._cv2.putText(
                *(self._image, text.display_text, (left, baseline), text.font_face, scale),
                color,
                width,
                8,
                self._flips_text,
            )

    def _corners(self, rectangle: Any) -> tuple[int, int, int, int]:
        is_normal = rectangle.normalized
        left_top = self._place(rectangle.left, rectangle.top, is_normal)
        return *left_top, *self._place(rectangle.right, rectangle.bottom, is_normal)

    def _ends(self, line: Any) -> tuple[Point, Point]:
        start = self._place(line.x_start, line.y_start, line.normalized)
        return start, self._place(line.x_end, line.y_end, line.normalized)

    def _place(self, x: float, y: float, is_normal: bool) -> Point:
        """Return the point in pixels."""
        if is_normal:
            return _rounded(x * self._width), _rounded(y * self._height)
        return _cut(x), _cut(y)


def _color(color: Any) -> tuple[int, int, int]:
    return color.r, color.g, color.b


def _thickness(value: float) -> int:
    return min(max(_rounded(value), 1), _MAX_THICKNESS)


def _rounded(value: float) -> int:
    """Return the nearest integer, halves away from zero."""
    return _cut(math.copysign(math.floor(abs(_finite(value)) + 0.5), value))


def _cut(value: float) -> int:
    return int(min(max(_finite(value), -_FAR), _FAR))


def _finite(value: float) -> float:
    if math.isnan(value):
        raise ImageError("a coordinate of an annotation is not a number")
    return min(max(value, -float(_FAR)), float(_FAR))


def _whole(point: tuple[float, float]) -> Point:
    """Return the point in whole pixels, rounded as OpenCV does: halves to even."""
    return round(point[0]), round(point[1])


def _turned(
    left: int, top: int, right: int, bottom: int, rotation: float
) -> list[tuple[float, float]]:
    """Return the corners: bottom left, top left, top right, bottom right, before the rotation."""
    x, y = (left + right) / 2, (top + bottom) / 2
    half = ((right - left) / 2, (bottom - top) / 2)
    a, b = math.sin(_finite(rotation)), math.cos(rotation)
    corners = ((-1, 1), (-1, -1), (1, -1), (1, 1))
    return [
        (x + b * h * half[0] - a * v * half[1], y + a * h * half[0] + b * v * half[1])
        for h, v in corners
    ]


_OVERLAY_OPTIONS = messages.AnnotationOverlayCalculatorOptions
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

    options = Options(_OVERLAY_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_opencv()
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
            inputs[index].set(message_type("RenderData"))
        for index in range(inputs.num_entries("VECTOR")):
            inputs["VECTOR", index].set(list_of("RenderData"))
        options = contract.options(_OVERLAY_OPTIONS)
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
        drawing = Canvas(image, self.options.flip_text_vertically)
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
